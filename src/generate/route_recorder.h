// RouteRecorder: records to which experts the tokens of a decoder state's sequences were sent, as they are
// read (model/experts/routes.h).
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
  // Records a pass that read these, one after the other, and its routes.
  void read(std::span<const Continuation> continuations, const model::Routes& routes);
  void fork(int64_t row, int64_t fresh) { of_rows_[fresh] = of_rows_.at(row); }
  RoutedSequence take(int64_t row);  // the routes of everything that the row has read; forgets them

 private:
  struct Sequence {
    std::vector<int64_t> ids;
    std::map<std::string, std::vector<Tensor>> choices;  // by block, of each pass
  };
  std::map<int64_t, Sequence> of_rows_;
};

}  // namespace longhaul::generate
