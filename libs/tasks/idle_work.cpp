// SPDX-License-Identifier: BSD-3-Clause
#include "tasks/idle_work.hpp"

#include <dlfcn.h>

#include <utility>

namespace mh::tasks {
namespace {

const mh_idle_work* find() {
  void* const found = dlsym(RTLD_DEFAULT, MH_IDLE_WORK_NAME);
  if (found == nullptr) return nullptr;
  return reinterpret_cast<mh_idle_work_function*>(found)(MH_IDLE_WORK_VERSION);
}

}  // namespace

IdleWork::IdleWork() : link_(find()) {}

IdleWork::~IdleWork() {
  withdraw();
  end_help();
}

void IdleWork::offer(mh_offer tasks) {
  withdraw();
  if (link_ == nullptr) return;
  before_ = link_->offer(tasks);
  offers_ = true;
}

void IdleWork::withdraw() {
  if (std::exchange(offers_, false)) link_->offer(before_);
}

void IdleWork::end_wait() {
  helps_ = false;
  link_->end_help();
}

}  // namespace mh::tasks
