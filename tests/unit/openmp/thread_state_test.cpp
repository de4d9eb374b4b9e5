// SPDX-License-Identifier: BSD-3-Clause
#include "openmp/thread_state.hpp"

#include <gtest/gtest.h>

#include <cfenv>
#include <thread>

namespace mh::openmp {
namespace {

volatile double g_one = 1;
volatile double g_zero = 0;
volatile double g_result = 0;

class SurroundingsTest : public testing::Test {
 protected:
  ~SurroundingsTest() override {
    std::fesetenv(FE_DFL_ENV);
    ::uselocale(LC_GLOBAL_LOCALE);
  }
};

TEST_F(SurroundingsTest, another_thread_takes_them_over_and_gives_them_back) {
  const locale_t own = ::newlocale(LC_ALL_MASK, "C", locale_t{});
  ::uselocale(own);
  std::fesetround(FE_DOWNWARD);
  errno = ERANGE;
  const ThreadState mine = ThreadState::now();
  std::thread([&] {
    std::fesetround(FE_TONEAREST);  // a new thread inherits the modes of its creator
    {
      const AdoptedThreadState adopted(mine);
      EXPECT_EQ(errno, ERANGE);
      EXPECT_EQ(std::fegetround(), FE_DOWNWARD);
      EXPECT_EQ(::uselocale(locale_t{}), own);
    }
    EXPECT_EQ(std::fegetround(), FE_TONEAREST);
    EXPECT_EQ(::uselocale(locale_t{}), LC_GLOBAL_LOCALE);
  }).join();
  ::uselocale(LC_GLOBAL_LOCALE);
  ::freelocale(own);
}

TEST_F(SurroundingsTest, exceptions_are_those_that_were_raised_since) {
  std::feclearexcept(FE_ALL_EXCEPT);
  g_result = g_one / g_zero;
  const ThreadState mine = ThreadState::now();
  std::uint32_t raised = ~0U;
  std::thread([&] {
    const AdoptedThreadState adopted(mine);
    EXPECT_EQ(FloatingPoint::raised(), 0U);
    g_result = g_zero / g_zero;
    raised = FloatingPoint::raised();
  }).join();
  std::feclearexcept(FE_ALL_EXCEPT);
  FloatingPoint::raise(raised);
  EXPECT_EQ(std::fetestexcept(FE_ALL_EXCEPT), FE_INVALID);
}

}  // namespace
}  // namespace mh::openmp
