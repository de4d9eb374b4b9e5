// SPDX-License-Identifier: BSD-3-Clause
// The mpi.h of the ABI for which this variant is compiled, without undefined data symbols.
//
// A variant is loaded beside an MPI library with which it is not linked, so it cannot refer to
// symbols of libmpi. The predefined handles of MPICH and of the standard ABI are numbers. The
// predefined handles of Open MPI are addresses of objects in libmpi; bind_handles() fills an array
// with these addresses when the variant is opened. Limits: under Open MPI a handle that is missing
// in kSymbols does not compile (add the handle). No predefined handle may be read before
// bind_handles() has run, for example in the initialiser of a global variable.
#pragma once

#include <cstddef>
#include <iterator>
#include <string_view>

#if defined(MH_ABI_STANDARD)
#include <mpi_abi.h>
#elif defined(MH_ABI_MPICH) || defined(MH_ABI_OPENMPI)
#define MPICH_SKIP_MPICXX 1
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>
#else
#error "define one of MH_ABI_MPICH, MH_ABI_OPENMPI, MH_ABI_STANDARD"
#endif

namespace mh::mpi {

#if defined(MH_ABI_STANDARD)
inline constexpr const char* kAbiName = "abi";
#elif defined(MH_ABI_MPICH)
inline constexpr const char* kAbiName = "mpich";
#else
inline constexpr const char* kAbiName = "openmpi";
#endif

// Returns the address of a symbol of the libmpi that the program has loaded, or nullptr. Called
// while this variant is opened.
using FindSymbol = void* (*)(const char* name);

}  // namespace mh::mpi

#if defined(MH_ABI_OPENMPI)

namespace mh::mpi::handles {

inline constexpr const char* kSymbols[] = {"ompi_mpi_comm_world",    "ompi_mpi_comm_self",
                                           "ompi_mpi_comm_null",     "ompi_mpi_group_null",
                                           "ompi_mpi_group_empty",   "ompi_request_null",
                                           "ompi_message_null",      "ompi_message_no_proc",
                                           "ompi_mpi_info_null",     "ompi_mpi_win_null",
                                           "ompi_mpi_file_null",     "ompi_mpi_errhandler_null",
                                           "ompi_mpi_errors_return", "ompi_mpi_errors_are_fatal",
                                           "ompi_mpi_datatype_null", "ompi_mpi_byte",
                                           "ompi_mpi_packed",        "ompi_mpi_char",
                                           "ompi_mpi_int",           "ompi_mpi_double",
                                           "ompi_mpi_uint32_t",      "ompi_mpi_uint64_t",
                                           "ompi_mpi_aint",          "ompi_mpi_count",
                                           "ompi_mpi_op_null",       "ompi_mpi_op_sum",
                                           "ompi_mpi_op_max",        "ompi_mpi_op_min",
                                           "ompi_mpi_op_land",       "ompi_mpi_op_band",
                                           "ompi_mpi_op_bor",        "ompi_mpi_op_prod",
                                           "ompi_mpi_op_lor",        "ompi_mpi_op_lxor",
                                           "ompi_mpi_op_bxor",       "ompi_mpi_op_maxloc",
                                           "ompi_mpi_op_minloc",     "ompi_mpi_op_replace",
                                           "ompi_mpi_op_no_op"};
// The addresses of the symbols in `kSymbols`. Written once by bind_handles(), before any wrapper
// runs; read-only afterwards.
inline void* addresses[std::size(kSymbols)];

consteval std::size_t place_of(std::string_view symbol) {
  std::size_t place = 0;
  while (kSymbols[place] != symbol) ++place;  // a symbol not in kSymbols does not compile
  return place;
}

}  // namespace mh::mpi::handles

// Open MPI's mpi.h defines MPI_COMM_WORLD as OMPI_PREDEFINED_GLOBAL(MPI_Comm, ompi_mpi_comm_world),
// and all other predefined handles alike. This definition takes the address of the object from
// `addresses` instead of a reference to libmpi.
#undef OMPI_PREDEFINED_GLOBAL
#define OMPI_PREDEFINED_GLOBAL(type, symbol) \
  (static_cast<type>(::mh::mpi::handles::addresses[::mh::mpi::handles::place_of(#symbol)]))

#endif  // MH_ABI_OPENMPI

namespace mh::mpi {

// Called when the variant is opened. Returns nullptr if the symbols of all predefined handles were
// found, else the name of the first missing symbol.
inline const char* bind_handles([[maybe_unused]] FindSymbol find) {
#if defined(MH_ABI_OPENMPI)
  for (std::size_t i = 0; i < std::size(handles::kSymbols); ++i) {
    handles::addresses[i] = find(handles::kSymbols[i]);
    if (handles::addresses[i] == nullptr) return handles::kSymbols[i];
  }
#endif
  return nullptr;
}

}  // namespace mh::mpi
