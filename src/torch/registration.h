// Puts the handler in front of every operator. Done once, when the library is loaded; operators defined later get their
// entries through `register_late`.
#pragma once

namespace spillway {

void register_handlers();
void register_late();

}  // namespace spillway
