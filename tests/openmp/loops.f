! SPDX-License-Identifier: BSD-3-Clause
!
! A shared loop in Fortran, fixed form, on an array of the caller.
!
! run: by test_matrix.py
      SUBROUTINE SPIN(I, OTHERS, SELF)
      USE, INTRINSIC :: ISO_C_BINDING
      INTEGER I, OTHERS, SELF
      INTERFACE
        INTEGER(C_INT) FUNCTION GETTID() BIND(C, NAME='gettid')
          IMPORT :: C_INT
        END FUNCTION
      END INTERFACE
      INTEGER, VOLATILE :: K
      DO 10 K = 1, 200 + MOD(I, 50)
   10 CONTINUE
      IF (GETTID() .NE. SELF) THEN
!$OMP ATOMIC
        OTHERS = OTHERS + 1
      END IF
      END

      LOGICAL FUNCTION SUMS(N, V, OTHERS, SELF)
      INTEGER N, OTHERS, SELF, I
      DOUBLE PRECISION V(N), S
      S = 0
!$OMP PARALLEL DO SCHEDULE(DYNAMIC, 3) REDUCTION(+ : S)
!$OMP& SHARED(V, N, OTHERS, SELF)
      DO 20 I = 1, N
        CALL SPIN(I, OTHERS, SELF)
        V(I) = 2 * I
        S = S + V(I)
   20 CONTINUE
!$OMP END PARALLEL DO
      SUMS = S .EQ. DBLE(N) * (N + 1)
      END

      PROGRAM LOOPS
      USE, INTRINSIC :: ISO_C_BINDING
      INCLUDE 'mpif.h'
      INTEGER RANK, IERR, OTHERS, SELF, TIMES
      LOGICAL SUMS, RIGHT
      EXTERNAL SUMS
      INTERFACE
        INTEGER(C_INT) FUNCTION GETTID() BIND(C, NAME='gettid')
          IMPORT :: C_INT
        END FUNCTION
      END INTERFACE
      DOUBLE PRECISION V(400)
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, RANK, IERR)
      SELF = GETTID()
      OTHERS = 0
      RIGHT = .TRUE.
      IF (RANK .EQ. 0) THEN
        DO 30 TIMES = 1, 3000
          RIGHT = RIGHT .AND. SUMS(400, V, OTHERS, SELF)
          IF (OTHERS .GT. 0 .AND. TIMES .GT. 5) GOTO 40
   30   CONTINUE
   40   PRINT '(3A)', 'case sums ', MERGE('ok   ', 'WRONG', RIGHT),
     &    MERGE(' joined', ' alone ', OTHERS .GT. 0)
      END IF
      CALL MPI_BARRIER(MPI_COMM_WORLD, IERR)
      CALL MPI_FINALIZE(IERR)
      END
