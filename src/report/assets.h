// The fixed parts of the page, from assets/: the build turns each file into a text (cmake/embed.cmake).
#pragma once

#include <span>
#include <string_view>

namespace spillway {

extern const std::string_view kPageHead, kPageStyle, kPageBody;
extern const std::span<const std::string_view> kPageScripts;  // in the order in which they build on each other

}  // namespace spillway
