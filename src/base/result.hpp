// SPDX-License-Identifier: BSD-3-Clause
// Gives src/ and libs/ the types Status and Result<T> under the path of a base header. Both types
// are defined in a public header of Manyhands, manyhands/result.hpp.
#pragma once

#include "manyhands/result.hpp"  // IWYU pragma: export
