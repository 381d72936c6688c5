// RouteRecorder: which experts the sequences of a decoder's state were sent to, token by token as they are read (model/experts/routes.h).
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "generate/routes_file.h"

namespace longhaul::generate {

struct Continuation;

class RouteRecorder {
 public:
  // A pass that read these, one behind the other, and its routes.
  void read(std::span<const Continuation> continuations, const model::Routes& routes);
  void fork(int64_t row, int64_t fresh) { of_rows_[fresh] = of_rows_.at(row); }
  RoutedSequence take(int64_t row);  // of all that it has read; forgets it

 private:
  struct Sequence {
    std::vector<int64_t> ids;
    std::map<std::string, std::vector<Tensor>> choices;  // by block, of each pass
  };
  std::map<int64_t, Sequence> of_rows_;
};

}  // namespace longhaul::generate
