// Drives a fuzz target without libFuzzer: every file of the corpus, every truncation of the small ones, then
// mutations of them for some seconds. Iteration i is a function of the corpus and i alone, so a crash is
// repeated with --only i.
//
//   safetensors_fuzz [--seconds 2] [--only ITERATION] CORPUS_FOLDER
//   (a missing folder is an empty corpus)
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/file.h"
#include "base/random.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr size_t kLimitBytes = 1 << 16;
char g_progress[128];  // what is running, for the signal handler

void say_where(int signal) {
  (void)!::write(2, g_progress, std::strlen(g_progress));
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void run(const std::string& input) {
  // An exact allocation, so that a sanitizer sees the first byte read behind the input.
  const std::vector<uint8_t> bytes(input.begin(), input.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

class Mutator {
 public:
  Mutator(const std::vector<std::string>& corpus, uint64_t iteration)
      : corpus_(corpus), stream_(iteration, "fuzz/mutation") {}

  std::string make() {
    std::string text = corpus_[below(corpus_.size())];
    for (uint64_t count = 1 + below(6); count > 0; --count) change(text);
    if (text.size() > kLimitBytes) text.resize(kLimitBytes);
    return text;
  }

 private:
  uint64_t below(uint64_t bound) { return bound == 0 ? 0 : stream_.below(next_++, bound); }

  void change(std::string& text) {
    static const char* const kTokens[] = {"0",
                                          "-1",
                                          "1e9",
                                          "18446744073709551616",
                                          "9223372036854775807",
                                          "{}",
                                          "[]",
                                          "\"\"",
                                          "null",
                                          "[[[[[[[[",
                                          "\xff",
                                          "\\u0000",
                                          "\n",
                                          "true",
                                          "0.5",
                                          "F32",
                                          "F4"};
    const size_t at = below(text.size() + 1), length = below(std::min<size_t>(text.size() - at, 32) + 1);
    switch (below(8)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 1:
        if (at < text.size()) text[at] = static_cast<char>(below(256));
        break;
      case 2:
        text.erase(at, length);
        break;
      case 3:
        text.insert(at, text.substr(at, length));
        break;
      case 4:
        text.replace(at, length, kTokens[below(std::size(kTokens))]);
        break;
      case 5:
        text.resize(at);
        break;
      case 6: {
        const std::string& other = corpus_[below(corpus_.size())];
        text.insert(at, other.substr(below(other.size() + 1), below(64)));
        break;
      }
      default:  // a number in digits becomes another one
        for (size_t i = at; i < text.size(); ++i) {
          if (text[i] >= '0' && text[i] <= '9') {
            text[i] = static_cast<char>('0' + below(10));
            break;
          }
        }
    }
  }

  const std::vector<std::string>& corpus_;
  longhaul::RandomStream stream_;
  uint64_t next_ = 0;
};

int drive(int argc, char** argv) {
  double seconds = 2;
  long only = -1;
  std::vector<std::string> corpus;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--seconds" && i + 1 < argc) {
      seconds = std::atof(argv[++i]);
    } else if (argument == "--only" && i + 1 < argc) {
      only = std::atol(argv[++i]);
    } else if (std::filesystem::exists(argument)) {
      for (const auto& path : longhaul::list_files(argument)) corpus.push_back(longhaul::read_text(path));
    }
  }
  const size_t files = corpus.size();
  for (size_t i = 0; i < files && only < 0; ++i) {
    std::snprintf(g_progress, sizeof g_progress,
                  "\ncrashed on file %zu of the corpus (sorted by name) or a truncation of it\n", i);
    run(corpus[i]);
    for (size_t length = 0; length < corpus[i].size() && corpus[i].size() <= 4096; ++length)
      run(corpus[i].substr(0, length));
  }
  corpus.push_back("");
  const longhaul::Stopwatch watch;
  long iteration = only < 0 ? 0 : only;
  do {
    std::snprintf(g_progress, sizeof g_progress, "\ncrashed in iteration %ld: run again with --only %ld\n",
                  iteration, iteration);
    run(Mutator(corpus, static_cast<uint64_t>(iteration)).make());
    ++iteration;
  } while (only < 0 && watch.seconds() < seconds);
  std::printf("%zu files, %ld mutations\n", files, only < 0 ? iteration : 1);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  for (const int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS}) std::signal(signal, say_where);
  try {
    return drive(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s%s\n", g_progress, error.what());
    return 1;
  }
}
