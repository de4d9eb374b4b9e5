// SPDX-License-Identifier: BSD-3-Clause
#include "openmp/names.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "openmp/lists.hpp"

namespace mh::openmp {

// A function with the name that Clang gives to the code of a parallel region. The name does not
// contain that of the enclosing function.
void outlined() __asm__(".omp_outlined..7");
void outlined() {}

namespace {

template <class Function>
const void* code_of(Function* function) {
  return reinterpret_cast<const void*>(function);
}

struct Solver {
  [[gnu::noinline]] static const void* step() {
    const void* code = code_of(outlined);
    asm volatile("" : "+r"(code));  // hides the address from the compiler
    return code;
  }
};

bool has_symbol(const RegionName& name, const std::string& symbol) {
  return std::find(name.symbols.begin(), name.symbols.end(), symbol) != name.symbols.end();
}

TEST(Names, what_is_left_of_a_demangled_name) {
  EXPECT_EQ(short_name("solver::step(double*, int)"), "solver::step");
  EXPECT_EQ(short_name("void solver::S::step<double>(double*, int)"), "solver::S::step");
  EXPECT_EQ(short_name("std::vector<int> a<b<c> >::f<int, long>(int (*)(int)) const"), "a::f");
  EXPECT_EQ(short_name("main::{lambda(int, long)#1}::operator()(int, long) const"),
            "main::{lambda(int, long)#1}::operator()");
  EXPECT_EQ(short_name("m::(anonymous namespace)::f(int)"), "m::(anonymous namespace)::f");
  EXPECT_EQ(short_name("bool m::operator<(m::A, m::A)"), "m::operator<");
  EXPECT_EQ(short_name("data"), "data");
}

TEST(Names, the_function_that_a_compiler_has_taken_code_from) {
  EXPECT_EQ(function_of("main._omp_fn.0"), "main");
  EXPECT_EQ(function_of("_ZL2sti._omp_fn.12.constprop.0"), "_ZL2sti");
  EXPECT_EQ(function_of(".omp_outlined..3"), "");
  EXPECT_EQ(function_of(".omp_outlined."), "");
  EXPECT_EQ(function_of("main.omp_outlined.2"), "main");
  EXPECT_EQ(function_of("_QQmain..omp_par.1"), "_QQmain");
  EXPECT_EQ(function_of("step.part.0"), "step");
}

TEST(Names, a_local_function_is_known_by_its_objects_file) {
  const RegionName name = name_of(code_of(has_symbol), nullptr);
  EXPECT_EQ(name.function, "mh::openmp::(anonymous namespace)::has_symbol");
  EXPECT_EQ(name.object, "unit_openmp");
  EXPECT_EQ(name.at.rfind("unit_openmp+0x", 0), 0U) << name.at;
  EXPECT_EQ(name.source, "");
}

TEST(Names, code_that_does_not_say_is_named_after_who_refers_to_it) {
  const RegionName name = name_of(Solver::step(), nullptr);
  EXPECT_EQ(name.function, "mh::openmp::(anonymous namespace)::Solver::step");
  EXPECT_TRUE(has_symbol(name, ".omp_outlined..7"));
}

TEST(Names, what_the_compiler_has_left_of_the_source_is_taken) {
  const RegionName name = name_of(Solver::step(), ";/some/where/a.cpp;solver::step;12;1;;");
  EXPECT_EQ(name.function, "solver::step");
  EXPECT_EQ(name.source, "a.cpp:12");
  EXPECT_EQ(name_of(Solver::step(), ";unknown;unknown;0;0;;").source, "");
  EXPECT_EQ(name_of(Solver::step(), "").source, "");
}

TEST(Names, what_is_nowhere_has_a_name_for_people) {
  const int local = 0;
  EXPECT_FALSE(name_of(&local, nullptr).shown().empty());
  EXPECT_EQ(name_of(nullptr, nullptr).function, "");
}

RegionName solver() {
  return {.function = "solver::step",
          .object = "libsolver.so.1",
          .at = "libsolver.so.1+0x1520",
          .source = "",
          .symbols = {"_ZN6solver4stepEPdi", "solver::step(double*, int)"}};
}

TEST(Lists, a_pattern_is_compared_with_every_spelling) {
  for (const char* pattern :
       {"solver::step", "solver::*", "*step", "*", "s*v*::s*p", "_ZN6solver4stepEPdi",
        "solver::step(double*, int)", "solver::step(*)", "libsolver.so.1+0x1520", "libsolver.so*:*",
        "libsolver.so.1:solver::step", "*:solver::*", "solver::step*"}) {
    EXPECT_TRUE(matches_name(pattern, solver())) << pattern;
  }
  for (const char* pattern :
       {"step", "solver", "solver::stepper", "libsolver.so.1", "app:*", "libsolver.so.1:main",
        "libsolver.so.1+0x152", "", ":", "SOLVER::*", "solver::step?", "solver:step"}) {
    EXPECT_FALSE(matches_name(pattern, solver())) << pattern;
  }
}

TEST(Lists, a_pattern_of_many_stars_ends_soon) {
  RegionName name = solver();
  name.function = std::string(2000, 'a');
  EXPECT_FALSE(matches_name("*a*a*a*a*a*a*a*a*a*a*a*a*b", name));
}

TEST(Lists, a_stripped_region_is_known_by_its_place_only) {
  RegionName name = solver();
  name.function.clear();
  name.symbols.clear();
  EXPECT_EQ(name.shown(), name.at);
  EXPECT_TRUE(matches_name(name.shown(), name));
  EXPECT_FALSE(matches_name("solver::step", name));
}

TEST(Lists, what_is_named_in_both_is_left_out) {
  Lists lists;
  EXPECT_TRUE(lists.empty());
  EXPECT_TRUE(lists.admits(solver()));
  lists.set({"main"}, {});
  EXPECT_FALSE(lists.empty());
  EXPECT_TRUE(lists.admits(solver()));
  lists.set({}, {"main"});
  EXPECT_FALSE(lists.admits(solver()));
  lists.set({}, {"main", "solver::*"});
  EXPECT_TRUE(lists.admits(solver()));
  lists.set({"solver::step"}, {"solver::*"});
  EXPECT_FALSE(lists.admits(solver()));
}

TEST(Lists, which_patterns_were_of_use_is_known) {
  Lists lists;
  lists.set({"main", "solver::*"}, {"other", "*"});
  EXPECT_EQ(lists.used(), 0U);
  EXPECT_FALSE(lists.admits(solver()));
  EXPECT_EQ(lists.used(), 0b1010U);
}

TEST(Lists, patterns_beyond_those_that_are_counted_still_hold) {
  Lists lists;
  lists.set(std::vector<std::string>(Lists::kMost + 1, "solver::step"), {});
  EXPECT_FALSE(lists.admits(solver()));
  EXPECT_EQ(lists.used(), ~0ULL);
}

}  // namespace
}  // namespace mh::openmp
