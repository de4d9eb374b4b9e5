// SPDX-License-Identifier: BSD-3-Clause
// The name of a parallel region for users: the function that contains it.
//
// Compilers outline a region into a function of its own. GCC names that function after the
// containing function (main._omp_fn.0). Clang up to 16 does not (.omp_outlined..3): the region then
// gets the name of the function that passes the outlined code's address to the run time. A stripped
// file has no names of local functions; only the address is known. name_of() reads the object's
// file, which is too slow for hot paths. Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mh::openmp {

struct RegionName {
  std::string function;              // "solver::step"; empty: not known
  std::string object;                // file name of the program or library, without folders
  std::string at;                    // "app+0x1520", as addr2line takes it
  std::string source;                // "app.cpp:12" if the compiler has left it in the program
  std::vector<std::string> symbols;  // linker names of the function and the code, also demangled

  [[nodiscard]] const std::string& shown() const { return function.empty() ? at : function; }
};

// Returns the name of the region whose outlined function is `code`. `source`: the source location
// that LLVM's run time gets, ";file;function;line;column;;", or null.
RegionName name_of(const void* code, const char* source);

// Shortens a demangled name: "void solver::S::step<double>(double*, int)" -> "solver::S::step".
std::string short_name(std::string_view demangled);
// Returns the name of the function that contains the region which a compiler has compiled to the
// function `outlined`; empty if the name `outlined` does not say.
std::string_view function_of(std::string_view outlined);

}  // namespace mh::openmp
