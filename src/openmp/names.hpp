// SPDX-License-Identifier: BSD-3-Clause
// What users call a parallel region: the function it stands in.
//
// Compilers give a region's code a function of its own. GCC names it after the function it was
// taken from (main._omp_fn.0), Clang up to 16 does not (.omp_outlined..3): there that one is found
// which hands the code's address to the run time. A stripped file has no names of local functions;
// then the place in the file is all there is. Reads the object's file: not for hot paths.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mh::openmp {

struct Name {
  std::string function;              // "solver::step"; empty: not known
  std::string object;                // the file it is in, without folders
  std::string at;                    // "app+0x1520", which addr2line takes
  std::string source;                // "app.cpp:12" where the compiler has left it in the program
  std::vector<std::string> symbols;  // what linkers call the function and the code, and demangled

  [[nodiscard]] const std::string& shown() const { return function.empty() ? at : function; }
};

// `source`: what LLVM's run time is told of the place, ";file;function;line;column;;", or null.
Name name_of(const void* code, const char* source);

// "void solver::S::step<double>(double*, int)" -> "solver::S::step".
std::string short_name(std::string_view demangled);
// The function that a compiler has taken this code from; empty if its name does not say it.
std::string_view function_of(std::string_view outlined);

}  // namespace mh::openmp
