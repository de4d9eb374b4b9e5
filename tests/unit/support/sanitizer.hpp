// SPDX-License-Identifier: BSD-3-Clause
// kSanitized is true in a build with a sanitizer, which is slow, so that stress tests run fewer
// rounds.
#pragma once

namespace mh::test {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
inline constexpr bool kSanitized =
    __has_feature(thread_sanitizer) || __has_feature(address_sanitizer);
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace mh::test
