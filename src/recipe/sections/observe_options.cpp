#include "recipe/sections/observe_options.h"

#include "recipe/options/option.h"

namespace longhaul::recipe {

void declare(OptionSet& set, ObserveOptions& observe) {
  set.add("observe.tensorboard", observe.tensorboard, "TensorBoard files in the run directory.").may_change();
  set.add("observe.report", observe.report,
          "report.html in the run directory, one file with curves and tables.")
      .may_change();
  set.add("observe.compression_baseline", observe.compression_baseline,
          "Compress the held-out text (of more than 8 MiB the beginning) with gzip -9 and xz -9 and print "
          "their bits per byte beside the "
          "model's.")
      .may_change();
  set.add("observe.trace_every", observe.trace_every,
          "Every such step is recorded in trace/ of the run directory, for `longhaul trace`: what each rank "
          "did when. 0: none.")
      .unit("steps")
      .at_least(0)
      .may_change();
  set.add("observe.batch_noise_every", observe.batch_noise_every,
          "Every such step also takes the gradient norm of one micro-batch of each replica alone, and tells "
          "critical_batch_tokens: up to how large a "
          "batch more tokens a step save steps. Needs two micro-batches a step; costs one more. 0: none.")
      .unit("steps")
      .at_least(0)
      .may_change();
  set.add(
         "observe.updates_every", observe.updates_every,
         "Every such step also tells root mean squares of weights and of what it added to them, of each "
         "role, the factor of clipping, lamb's trust "
         "ratios, came's mean residuals, and the factors with which came and adafactor clip updates. Needs a "
         "copy of the master weights meanwhile. 0: none.")
      .unit("steps")
      .at_least(0)
      .may_change();
  set.add("observe.entry_skew_every", observe.entry_skew_every,
          "Every such step of several ranks also tells how far apart the first and the last of them came to "
          "the first call of all behind their "
          "passes: a speed that falls while every rank's own times stay shows there. Costs one more call of "
          "two numbers. 0: none.")
      .unit("steps")
      .at_least(0)
      .may_change();
}

}  // namespace longhaul::recipe
