#include "cli/again_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "trace/fields.h"

namespace spillway {
namespace {

using Json = nlohmann::ordered_json;

std::string to_text(const std::optional<Act>& act) {
  if (!act) return "nothing more";
  const std::string tier = act->tier == TraceTier::nowhere ? "" : fmt::format(" ({})", word(act->tier));
  return fmt::format("op {}, {}{}, storage {}", act->op.index, word_of(act->deed), tier, act->storage.index);
}

Json to_json(const std::optional<Act>& act) {
  if (!act) return nullptr;
  return {{"op", act->op.index}, {"action", word_of(act->deed)}, {"tier", word(act->tier)}, {"storage", act->storage.index}};
}

bool is_same(const AgainResult& result) { return !result.difference && result.problem.empty(); }

}  // namespace

std::string to_text(const AgainResult& result) {
  std::string text = fmt::format("played {} ops in {} steps again{}: {} of {} actions the same\n", result.ops, result.steps,
                                 result.whole ? "" : ", as far as the trace tells all", result.same, result.recorded);
  if (result.difference)
    text += fmt::format("first difference: {} in the run; {} now\n", to_text(result.difference->recorded), to_text(result.difference->played));
  if (!result.problem.empty()) text += fmt::format("after that it could not be followed: {}\n", result.problem);
  return text;
}

Json to_json(const AgainResult& result) {
  Json json{{"same", is_same(result)}, {"whole", result.whole}, {"ops", result.ops}, {"steps", result.steps}, {"actions", result.recorded},
            {"played_actions", result.played}, {"same_actions", result.same}, {"difference", nullptr}, {"problem", nullptr}};
  if (result.difference) json["difference"] = {{"recorded", to_json(result.difference->recorded)}, {"played", to_json(result.difference->played)}};
  if (!result.problem.empty()) json["problem"] = result.problem;
  return json;
}

}  // namespace spillway
