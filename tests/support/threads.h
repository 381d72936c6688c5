// Results that must not depend on the number of threads.
#pragma once

#include <functional>
#include <vector>

#include "base/threads/parallel.h"
#include "support/tensors.h"

namespace longhaul::testing {

// Runs `body` with one thread and with several and compares what it returns bit by bit.
inline void expect_same_for_all_threads(const std::function<std::vector<Tensor>()>& body) {
  const int before = threads();
  set_threads(1);
  const std::vector<Tensor> one = body();
  for (const int count : {2, 3, 5}) {
    set_threads(count);
    const std::vector<Tensor> several = body();
    EXPECT_EQ(several.size(), one.size());
    for (size_t i = 0; i < one.size(); ++i)
      EXPECT_TRUE(several[i].equal(one[i])) << "output " << i << " with " << count << " threads";
  }
  set_threads(before);
}

}  // namespace longhaul::testing
