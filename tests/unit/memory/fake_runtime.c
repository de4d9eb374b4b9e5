/* SPDX-License-Identifier: BSD-3-Clause */
/* A stand-in for the run time of an accelerator: only the name of the library matters. */
typedef int mh_nothing;
