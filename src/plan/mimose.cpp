// Mimose (Liao et al., IPDPS 2023): whole blocks are checkpointed, as many as the excess over the budget asks for.
//
// Blocks are sorted by the bytes they keep and cut into buckets within a tenth of the largest; of the tightest bucket that
// covers the rest alone, or else of the largest, the earliest block goes, because a block near the end of the forward pass is
// wanted back when everything is still there. The paper fits a quadratic of the input's size to each block; here the
// forecast has told the step's sizes already. Its blocks are modules; here they are segments of the forward pass.
#include <algorithm>

#include "liveness/curve.h"
#include "plan/draft.h"
#include "plan/papers.h"
#include "plan/segments.h"

namespace spillway {

namespace {

struct ModelBlock {
  Bytes size;  // of what it keeps for the backward and could drop
  std::vector<GapPlace> gaps;
  std::uint32_t place = 0;
};

using Bucket = std::vector<ModelBlock>;  // earlier ones last

std::vector<ModelBlock> find_blocks(const Draft& draft) {
  const std::vector<std::uint32_t> segment = cut_forward(draft.step());
  std::vector<ModelBlock> blocks;
  for (GapPlace at = 0; at < draft.gap_count(); ++at) {
    if (!draft.is_saved(at) || !draft.problem().may_drop(at)) continue;
    const StoragePlace storage = draft.gap(at).storage;
    if (crosses(draft.step(), storage, segment)) continue;
    const std::uint32_t place = segment[draft.step().accesses_of(storage).front().op];
    if (blocks.size() <= place) blocks.resize(place + 1);
    blocks[place].size += draft.problem().size(at);
    blocks[place].gaps.push_back(at);
    blocks[place].place = place;
  }
  std::erase_if(blocks, [](const ModelBlock& block) { return block.gaps.empty(); });
  return blocks;
}

std::vector<Bucket> sort_into_buckets(std::vector<ModelBlock> blocks) {
  std::ranges::stable_sort(blocks, std::greater{}, &ModelBlock::size);
  std::vector<Bucket> buckets;
  Bytes leader;
  for (ModelBlock& block : blocks) {
    if (buckets.empty() || block.size * 10 <= leader * 9) {
      buckets.emplace_back();
      leader = block.size;
    }
    buckets.back().push_back(std::move(block));
  }
  for (Bucket& bucket : buckets) std::ranges::sort(bucket, std::greater{}, &ModelBlock::place);
  return buckets;
}

// The last bucket is the tightest.
ModelBlock take_next(std::vector<Bucket>& buckets, Bytes excess) {
  const auto covers = [&](const Bucket& bucket) { return std::ranges::max(bucket, {}, &ModelBlock::size).size > excess; };
  const auto tightest = std::ranges::find_if(buckets.rbegin(), buckets.rend(), covers);
  const auto from = tightest == buckets.rend() ? buckets.begin() : tightest.base() - 1;
  ModelBlock block = std::move(from->back());
  from->pop_back();
  if (from->empty()) buckets.erase(from);
  return block;
}

}  // namespace

Plan plan_mimose(const PlanRequest& request, const Plan&) {
  Draft draft(request);
  if (draft.fits()) return draft.plan();
  std::vector<Bucket> buckets = sort_into_buckets(find_blocks(draft));
  Bytes excess = live_curve(draft.step()).peak - request.budget;
  while (excess > 0_B && !buckets.empty()) {
    const ModelBlock block = take_next(buckets, excess);
    for (const GapPlace at : block.gaps) draft.drop(at);
    excess -= block.size;
  }
  draft.judge();
  return draft.plan();
}

}  // namespace spillway
