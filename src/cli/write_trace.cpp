#include "cli/write_trace.h"

#include "base/files/file.h"
#include "observe/trace/chrome_trace.h"
#include "observe/trace/perfetto_trace.h"

namespace longhaul::cli {

void write_trace(const std::vector<observe::RankTrace>& ranks, const std::filesystem::path& out) {
  if (out.has_parent_path()) make_folders(out.parent_path());
  File file = File::open(out, File::Mode::kCreate);
  std::string buffer;
  const auto write = [&](std::string_view text) {
    buffer += text;
    if (buffer.size() < 1 << 20) return;
    file.write(buffer);
    buffer.clear();
  };
  if (out.extension() == ".pftrace" || out.extension() == ".perfetto-trace")
    observe::write_perfetto_trace(ranks, write);
  else
    observe::write_chrome_trace(ranks, write);
  file.write(buffer);
  file.close();
}

}  // namespace longhaul::cli
