// SPDX-License-Identifier: BSD-3-Clause
#include "openmp/instructions.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace mh::openmp::instructions {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Found = std::vector<std::pair<ReferenceKind, std::uintptr_t>>;

constexpr std::uintptr_t kHere = 0x10000;

Found in_x86_64(const Bytes& code) {
  Found found;
  EXPECT_TRUE(x86_64(code, kHere,
                     [&](ReferenceKind what, std::uintptr_t to) { found.emplace_back(what, to); }));
  return found;
}

TEST(X86, calls_and_jumps_say_where_they_go) {
  EXPECT_EQ(in_x86_64({0xe8, 0x10, 0, 0, 0}), (Found{{ReferenceKind::code, kHere + 0x15}}));
  EXPECT_EQ(in_x86_64({0x90, 0xe9, 0xfa, 0xff, 0xff, 0xff}), (Found{{ReferenceKind::code, kHere}}));
  EXPECT_EQ(in_x86_64({0x0f, 0x84, 0, 1, 0, 0}), (Found{{ReferenceKind::code, kHere + 0x106}}));
}

TEST(X86, places_are_found_in_front_of_immediates_too) {
  // The bytes below are those of jmp *0x20(%rip); mov 0x20(%rip),%rax; cmpl $5,0x20(%rip); and the
  // same jmp with a bnd prefix.
  EXPECT_EQ(in_x86_64({0xff, 0x25, 0x20, 0, 0, 0}),
            (Found{{ReferenceKind::through_slot, kHere + 0x26}}));
  EXPECT_EQ(in_x86_64({0x48, 0x8b, 0x05, 0x20, 0, 0, 0}),
            (Found{{ReferenceKind::slot, kHere + 0x27}}));
  EXPECT_EQ(in_x86_64({0x83, 0x3d, 0x20, 0, 0, 0, 5}),
            (Found{{ReferenceKind::slot, kHere + 0x27}}));
  EXPECT_EQ(in_x86_64({0xf2, 0xff, 0x25, 0x20, 0, 0, 0}),
            (Found{{ReferenceKind::through_slot, kHere + 0x27}}));
}

TEST(X86, calls_and_jumps_through_pointers_are_seen) {
  const Found through{{ReferenceKind::through_pointer, 0}};
  EXPECT_EQ(in_x86_64({0xff, 0xd0}), through);                    // call *%rax
  EXPECT_EQ(in_x86_64({0x41, 0xff, 0xe3}), through);              // jmp *%r11
  EXPECT_EQ(in_x86_64({0xff, 0x50, 0x10}), through);              // call *0x10(%rax)
  EXPECT_EQ(in_x86_64({0xff, 0x24, 0xc5, 0, 0, 0, 0}), through);  // jmp *table(,%rax,8)
  EXPECT_TRUE(in_x86_64({0xff, 0xc0}).empty());                   // inc %eax
  EXPECT_TRUE(in_x86_64({0xff, 0x30}).empty());                   // push (%rax)
}

TEST(X86, fences_are_seen_and_other_locked_instructions_are_not) {
  const Found fence{{ReferenceKind::fence, 0}};
  EXPECT_EQ(in_x86_64({0x0f, 0xae, 0xf0}), fence);                    // mfence
  EXPECT_EQ(in_x86_64({0xf0, 0x48, 0x83, 0x0c, 0x24, 0}), fence);     // lock orq $0,(%rsp)
  EXPECT_EQ(in_x86_64({0xf0, 0x83, 0x0c, 0x24, 0}), fence);           // lock orl $0,(%rsp)
  EXPECT_EQ(in_x86_64({0xf0, 0x83, 0x44, 0x24, 0xfc, 0}), fence);     // lock addl $0,-4(%rsp)
  EXPECT_TRUE(in_x86_64({0xf0, 0x83, 0x07, 1}).empty());              // lock addl $1,(%rdi)
  EXPECT_TRUE(in_x86_64({0xf0, 0x83, 0x44, 0x24, 0xfc, 1}).empty());  // lock addl $1,-4(%rsp)
  EXPECT_TRUE(in_x86_64({0xf0, 0x0f, 0xb1, 0x54, 0x24, 0}).empty());  // lock cmpxchg
  EXPECT_TRUE(in_x86_64({0x83, 0x4c, 0x24, 0xfc, 0}).empty());        // orl $0,-4(%rsp)
  EXPECT_TRUE(in_x86_64({0xf0, 0x48, 0x83, 0x45, 0, 0}).empty());     // lock addq $0,0(%rbp)
  EXPECT_TRUE(in_x86_64({0x0f, 0xae, 0xe8}).empty());                 // lfence
}

// The code of add %r13d,%eax and add $0x96,%eax: among the bytes of these two instructions are
// those of a call.
TEST(X86, what_looks_like_a_call_within_others_is_none) {
  EXPECT_TRUE(in_x86_64({0x44, 0x01, 0xe8, 0x05, 0x96, 0, 0, 0}).empty());
}

TEST(X86, lengths) {
  const std::vector<Bytes> whole = {
      {0xc3},                                                     // ret
      {0xf3, 0x0f, 0x1e, 0xfa},                                   // endbr64
      {0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0},                    // nopw 0(%rax,%rax,1)
      {0x66, 0xc7, 0x00, 0x34, 0x12},                             // movw $0x1234,(%rax)
      {0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8},                       // movabs
      {0x48, 0xc7, 0x44, 0x24, 8, 1, 0, 0, 0},                    // movq $1,8(%rsp)
      {0xf7, 0xc1, 1, 0, 0, 0},                                   // test $1,%ecx
      {0xf7, 0xd9},                                               // neg %ecx
      {0x8b, 0x04, 0x25, 1, 0, 0, 0},                             // mov 1,%eax
      {0x66, 0x0f, 0x3a, 0x0f, 0xc1, 8},                          // palignr
      {0xc5, 0xf8, 0x77},                                         // vzeroupper
      {0xc5, 0xfd, 0x70, 0xc0, 0x1b},                             // vpshufd
      {0xc4, 0xe3, 0x7d, 0x19, 0xc1, 1},                          // vextractf128
      {0x62, 0xf1, 0x7c, 0x48, 0x28, 0x44, 0x24, 1},              // vmovaps 64(%rsp),%zmm0
      {0xf0, 0x48, 0x0f, 0xb1, 0x0d, 0, 0, 0, 0},                 // lock cmpxchg
      {0x2e, 0x2e, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0},  // padding
  };
  for (const Bytes& one : whole) {
    Bytes followed = one;
    followed.insert(followed.end(), 16, 0x90);
    EXPECT_EQ(length(followed), one.size()) << std::hex << static_cast<int>(one[0]);
    EXPECT_EQ(length(Bytes(one.begin(), one.end() - 1)), 0U) << "cut off";
  }
}

TEST(X86, what_is_no_instruction_is_said) {
  const auto ignore = [](ReferenceKind, std::uintptr_t) {};
  EXPECT_FALSE(x86_64(Bytes{0x90, 0x06}, kHere, ignore));
  EXPECT_FALSE(x86_64(Bytes{0xe8, 0, 0}, kHere, ignore));
  EXPECT_EQ(length({}), 0U);
}

}  // namespace
}  // namespace mh::openmp::instructions
