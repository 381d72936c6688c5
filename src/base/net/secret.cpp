#include "base/net/secret.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "base/error.h"

namespace longhaul {
namespace {

[[noreturn]] void secret_refused(const std::filesystem::path& path, std::string expected, std::string found,
                                 std::string hint) {
  throw Error({.code = ExitCode::kUsage,
               .what = "cannot use the secret of the job",
               .expected = std::move(expected),
               .found = std::move(found),
               .where = path.string(),
               .hint = std::move(hint)});
}

struct SecretDescriptor {
  int value = -1;
  ~SecretDescriptor() {
    if (value >= 0) ::close(value);
  }
};

// The file is complete from the moment it has its name: another process that reads meanwhile finds no file,
// or all of it. `in_place`: an existing file is replaced.
void write_secret(const std::filesystem::path& path, const std::string& text, bool in_place) {
  const std::string unfinished = fmt::format("{}.{}", path.string(), ::getpid());
  const SecretDescriptor file{
      ::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600)};
  const bool written = file.value >= 0 && ::fchmod(file.value, 0600) == 0 &&
                       ::write(file.value, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       ::fsync(file.value) == 0;
  const bool named = written && (in_place ? ::rename(unfinished.c_str(), path.c_str()) == 0
                                          : ::link(unfinished.c_str(), path.c_str()) == 0 || errno == EEXIST);
  const int reason = errno;
  ::unlink(unfinished.c_str());
  if (!named) {
    throw Error({.code = ExitCode::kDisk,
                 .what = "cannot write the secret of the job",
                 .found = std::generic_category().message(reason),
                 .where = path.string()});
  }
}

constexpr std::string_view kDriverWord = "driver ", kNodeWord = "node ";
constexpr size_t kMostName = 256;

struct SecretFile {
  std::string secret, driver, node;
};

std::string text_of(const SecretFile& file) {
  std::string text = to_hex(file.secret) + "\n";
  if (!file.driver.empty()) text += fmt::format("{}{}\n", kDriverWord, to_hex(file.driver));
  if (!file.node.empty()) text += fmt::format("{}{}\n", kNodeWord, file.node);
  return text;
}

}  // namespace

std::string random_bytes(size_t count) {
  std::string bytes(count, '\0');
  for (size_t done = 0; done < count;) {
    const ssize_t got = ::getrandom(bytes.data() + done, count - done, 0);
    LONGHAUL_ASSERT(got > 0 || errno == EINTR, "no random numbers: {}",
                    std::generic_category().message(errno));
    if (got > 0) done += static_cast<size_t>(got);
  }
  return bytes;
}

std::string hmac_sha256(std::string_view key, std::string_view message) {
  std::string result(32, '\0');
  unsigned int length = 0;
  const auto* made = ::HMAC(::EVP_sha256(), key.data(), static_cast<int>(key.size()),
                            reinterpret_cast<const unsigned char*>(message.data()), message.size(),
                            reinterpret_cast<unsigned char*>(result.data()), &length);
  LONGHAUL_ASSERT(made && length == result.size(), "OpenSSL offers no HMAC with SHA-256");
  return result;
}

bool equal_in_constant_time(std::string_view first, std::string_view second) {
  return first.size() == second.size() && ::CRYPTO_memcmp(first.data(), second.data(), first.size()) == 0;
}

std::string to_hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

std::string from_hex(std::string_view text) {
  const auto value = [](char digit) {
    if (digit >= '0' && digit <= '9') return digit - '0';
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
  };
  if (text.size() % 2 != 0) return "";
  std::string bytes;
  for (size_t i = 0; i < text.size(); i += 2) {
    const int high = value(text[i]), low = value(text[i + 1]);
    if (high < 0 || low < 0) return "";
    bytes.push_back(static_cast<char>(high * 16 + low));
  }
  return bytes;
}

namespace {

SecretFile read_secret_file(const std::filesystem::path& path) {
  const SecretDescriptor file{::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)};
  struct stat status {};
  const std::string hint = "copy the file of the driver, RUN/control/secret, and: chmod 600 " + path.string();
  if (file.value < 0 || ::fstat(file.value, &status) != 0)
    secret_refused(path, "a file with the secret", std::generic_category().message(errno), hint);
  if (!S_ISREG(status.st_mode)) secret_refused(path, "a plain file", "something else", hint);
  if (status.st_uid != ::geteuid())
    secret_refused(path, "a file of your own", fmt::format("one of user {}", status.st_uid), hint);
  if ((status.st_mode & 077) != 0)
    secret_refused(path, "a file that nobody else may read (mode 0600)",
                   fmt::format("mode {:04o}", status.st_mode & 07777), hint);
  std::array<char, 4 * kSecretBytes + kDriverWord.size() + kNodeWord.size() + kMostName + 4> text{};
  const ssize_t count = ::read(file.value, text.data(), text.size());
  const std::string_view all(text.data(), static_cast<size_t>(std::max<ssize_t>(0, count)));
  std::string_view rest = all;
  const auto next_line = [&] {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    return line;
  };
  SecretFile found{.secret = from_hex(next_line()), .driver = "", .node = ""};
  bool good = found.secret.size() == kSecretBytes;
  if (rest.starts_with(kDriverWord)) {
    found.driver = from_hex(next_line().substr(kDriverWord.size()));
    good = good && found.driver.size() == kSecretBytes;
  }
  if (rest.starts_with(kNodeWord)) {
    found.node = next_line().substr(kNodeWord.size());
    good = good && !found.node.empty() && found.node.size() <= kMostName;
  }
  // The contents are not shown, because they may be most of a secret.
  if (!good || !rest.empty())
    secret_refused(path, "64 hexadecimal digits, and the driver's key below them",
                   fmt::format("{} bytes that are not", all.size()), hint);
  return found;
}

}  // namespace

std::string read_secret(const std::filesystem::path& path) { return read_secret_file(path).secret; }
std::string read_driver_key(const std::filesystem::path& path) { return read_secret_file(path).driver; }
std::string read_node_name(const std::filesystem::path& path) { return read_secret_file(path).node; }

void tell_driver_key(const std::filesystem::path& path, std::string_view key) {
  SecretFile found = read_secret_file(path);
  if (found.driver == key) return;
  found.driver = key;
  write_secret(path, text_of(found), true);
}

void write_node_secret(const std::filesystem::path& path, std::string_view secret,
                       std::string_view driver_key, std::string_view node) {
  LONGHAUL_ASSERT(!node.empty() && node.size() <= kMostName && node.find('\n') == std::string_view::npos,
                  "a node without a usable name");
  write_secret(
      path,
      text_of({.secret = std::string(secret), .driver = std::string(driver_key), .node = std::string(node)}),
      true);
}

std::string read_or_make_secret(const std::filesystem::path& path) {
  if (!std::filesystem::exists(std::filesystem::symlink_status(path)))
    write_secret(path, to_hex(random_bytes(kSecretBytes)) + "\n", false);
  return read_secret(path);
}

}  // namespace longhaul
