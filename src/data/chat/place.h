// Evaluator::Place, for the two files of the evaluator: a step and a level of depth of what is evaluated.
#pragma once

#include <exception>

#include "data/chat/evaluator.h"

namespace longhaul::data::chat {

class Evaluator::Place {
 public:
  Place(Evaluator& evaluator, int line)
      : evaluator_(evaluator), before_(evaluator.line_), thrown_(std::uncaught_exceptions()) {
    evaluator.budget_.steps();
    if (evaluator.depth_ >= evaluator.budget_.limits().depth) {
      fail("the template calls itself more than {} levels deep", evaluator.budget_.limits().depth);
    }
    ++evaluator.depth_;
    evaluator.line_ = line;
  }
  ~Place() {
    --evaluator_.depth_;
    if (std::uncaught_exceptions() == thrown_) evaluator_.line_ = before_;
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

 private:
  Evaluator& evaluator_;
  int before_, thrown_;
};

}  // namespace longhaul::data::chat
