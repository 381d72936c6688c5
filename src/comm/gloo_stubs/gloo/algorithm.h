// LibTorch's wheel holds Gloo but not its headers, which ProcessGroupGloo.hpp includes. These few, our own,
// declare what that header names; wire.cpp alone sees them, last on its include path, so that real ones go
// before. Debian's libgloo-dev is of another version: do not use it.
#pragma once
