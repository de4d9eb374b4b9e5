! SPDX-License-Identifier: BSD-3-Clause
C Directives in Fortran, fixed form, and a main program without a PROGRAM statement.
      implicit real*8 (a-h, o-z)
      dimension values(1000)
      common /sizes/ nchunk
      nchunk = 7
      total = 0
      last = 0
c$ws do reduction(+:total) lastprivate(last) schedule(dynamic, nchunk)
c$ws& steal_schedule(guided, nchunk * 2 + 1)
      do 10 i = 1, 1000
        values(i) = i
        total = total + values(i)
     &    + 1
        last = i
   10 continue
*$ws end do
      icount = 0
!$ws do
      do i = 1, 100
C$WS ATOMIC
        icount = icount + 1
      end do
!$    print *, 'never seen: this is for OpenMP'
      call other(icount, 100)
      print *, total, last, icount
      end
      subroutine other(i, n)
      integer i, n, k, some_long_name, another_long_name, longest_name
      some_long_name = 0
      longest_name = 0
c$ws sections firstprivate(another_long_name)
      some_long_name = 1
c$ws section
      longest_name = 2
c$ws end sections
c$ws do private(another_long_name) reduction(+:longest_name)
      do k = 1, n
        another_long_name = k
        longest_name = longest_name + another_long_name
      end do
      i = i + some_long_name + longest_name
      end
