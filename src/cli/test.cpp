// `longhaul test` belongs to the script at the root of the source tree, which builds the tests and runs them;
// the program alone has none inside.
#include "cli/command.h"

namespace longhaul::cli {

void add_test(Command& program) {
  Command test = program.add("test", "build and run the tests (from the source tree: ./longhaul test)",
                             {{"the fast and full tests", "test"},
                              {"only the fast ones", "test fast"},
                              {"those against other programs", "test peer"}});
  test.allow_any_words();
  test.on_run([]() -> ExitCode {
    throw Error({.code = ExitCode::kUsage,
                 .what = "the program holds no tests of its own",
                 .expected = "the script of the source tree",
                 .hint = "in the source tree, type ./longhaul test"});
  });
}

}  // namespace longhaul::cli
