// SPDX-License-Identifier: BSD-3-Clause
#include "base/result.hpp"

#include <cerrno>

namespace mh {

Status from_errno(int sys_errno) {
  switch (sys_errno) {
    case 0:
      return {};
    case EPERM:
    case EACCES:
      return {Code::refused, sys_errno};
    case EFAULT:
      return {Code::fault, sys_errno};
    case ESRCH:
      return {Code::gone, sys_errno};
    case ENOMEM:
    case ENOSPC:
    case EAGAIN:
    case EMFILE:
    case ENFILE:
      return {Code::full, sys_errno};
    case ENOSYS:
    case EOPNOTSUPP:
    case EAFNOSUPPORT:
      return {Code::unsupported, sys_errno};
    default:
      return {Code::system, sys_errno};
  }
}

const char* describe(Code code) {
  switch (code) {
    case Code::ok:
      return "done";
    case Code::full:
      return "no memory or slot left";
    case Code::retry:
      return "not possible at this moment";
    case Code::refused:
      return "operation not permitted";
    case Code::fault:
      return "not ordinary memory";
    case Code::gone:
      return "process no longer exists";
    case Code::mismatch:
      return "the two sides differ in build, job or protocol";
    case Code::unsupported:
      return "not available on this system";
    case Code::misuse:
      return "call not allowed here or with these arguments";
    case Code::system:
      return "system call failed";
  }
  return "unknown failure";
}

}  // namespace mh
