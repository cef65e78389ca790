// torch's CPU allocator while a budget holds RAM: memory comes from the engine, or from the allocator before us when the
// engine is not managing.
#pragma once

namespace spillway {

// Takes effect for storages made afterwards. Idempotent.
void install_cpu_allocator();

}  // namespace spillway
