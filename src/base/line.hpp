// SPDX-License-Identifier: BSD-3-Clause
// A line of text for the user, on stderr with the prefix "manyhands: ", written by a single
// write(2) so that lines of many ranks do not mix. Any thread; not for hot paths. Never throws,
// never fails the caller, and preserves errno. Callers that format a text use say.hpp.
#pragma once

#include <string_view>

namespace mh {

// Writes "manyhands: TEXT\n" to stderr. Line breaks in the text become spaces.
void print_line(std::string_view text) noexcept;

}  // namespace mh
