# Compiler settings shared by every target: C++20, warnings as errors, ccache and a fast linker when present.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
add_compile_options(-fPIC)  # for every target alike, so that they can share a precompiled header
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2")  # assertions stay on: a wrong answer costs more than a compare

find_program(CCACHE ccache)
if(CCACHE)
  # Precompiled headers need the sloppiness; the compiler is known by its content, so a rebuilt image still hits. Paths below this tree
  # are taken relative to the build folder and the folder itself is not hashed: another clone or worktree finds the same objects.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
      CCACHE_COMPILERCHECK=content CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_PCH_EXTSUM=1 ${CCACHE})
endif()
find_program(MOLD mold)
find_program(LLD ld.lld)
if(CMAKE_CROSSCOMPILING)
  # The linker that comes with the compiler: it does not look for another among this machine's.
elseif(MOLD)
  add_link_options(-fuse-ld=mold)
elseif(LLD)
  add_link_options(-fuse-ld=lld)
endif()

# What a mistake in handling a stranger's bytes may do is bounded: lengths that the compiler knows are checked, a smashed stack ends the
# process, addresses are random and the tables of the dynamic linker are read-only. Ubuntu's compilers define a level of their own first.
# Sanitizers see more, and the checked functions would hide it from them.
if(NOT LONGHAUL_SANITIZE)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fstack-protector-strong>)
  if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")  # without optimisation the C library refuses it
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-U_FORTIFY_SOURCE> $<$<COMPILE_LANGUAGE:CXX>:-D_FORTIFY_SOURCE=3>)
  endif()
  add_link_options($<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-pie> -Wl,-z,relro,-z,now,-z,noexecstack)
endif()

add_compile_options(-Wall -Wextra -Wshadow -Wnon-virtual-dtor -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Designated initialisers leave defaults on purpose; GCC 12 sees overlaps and overflows in std::string that are not there (bug 105651);
  # GCC 13 takes fmt's argument lookup for a reference to a temporary. GCC 12 does not know, and does not mind, the last one.
  add_compile_options(-Wno-missing-field-initializers -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread -Wno-array-bounds -Wno-dangling-reference)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  add_compile_options(-Wno-missing-designated-field-initializers -Wno-unknown-warning-option -Wno-missing-field-initializers)
endif()
if(LONGHAUL_SANITIZE)
  add_compile_options(-fsanitize=${LONGHAUL_SANITIZE} -fno-omit-frame-pointer -g1)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-maybe-uninitialized)  # with sanitizers GCC sees some in std::regex that are not there (bug 105562)
    if(LONGHAUL_SANITIZE MATCHES thread)
      add_compile_options(-Wno-tsan)  # fences, which it does not follow: LibTorch has one, for Python's objects
    endif()
  endif()
  add_link_options(-fsanitize=${LONGHAUL_SANITIZE})
endif()
