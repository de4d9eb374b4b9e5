/* SPDX-License-Identifier: BSD-3-Clause */
/* Stands in for the run time of an accelerator: only its name matters. */
typedef int mh_nothing;
