// SPDX-License-Identifier: BSD-3-Clause
// Status and Result<T>, under the name that the components use. The definition is a public header.
#pragma once

#include "manyhands/result.hpp"  // IWYU pragma: export
