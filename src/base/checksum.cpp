#include "base/checksum.h"

#include <openssl/evp.h>
#include <xxhash.h>

#include <array>
#include <bit>
#include <cstring>

#include "base/error.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace longhaul {
namespace {

static_assert(std::endian::native == std::endian::little, "checksums read words in little-endian order");

constexpr uint32_t kCastagnoliReversed = 0x82f63b78;

// table[k][b]: what byte b contributes when k more bytes follow it, so that eight bytes go in one step.
constexpr auto make_tables() {
  std::array<std::array<uint32_t, 256>, 8> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ (value & 1 ? kCastagnoliReversed : 0);
    table[0][byte] = value;
  }
  for (size_t k = 1; k < 8; ++k)
    for (size_t byte = 0; byte < 256; ++byte)
      table[k][byte] = (table[k - 1][byte] >> 8) ^ table[0][table[k - 1][byte] & 0xff];
  return table;
}
constexpr auto kTables = make_tables();

// The instructions for it: one for eight bytes, one for a single byte.
#if defined(__x86_64__)
#define LONGHAUL_CRC_TARGET __attribute__((target("sse4.2")))
bool has_crc_instructions() { return __builtin_cpu_supports("sse4.2"); }
LONGHAUL_CRC_TARGET uint32_t crc_of_word(uint32_t crc, uint64_t word) {
  return static_cast<uint32_t>(_mm_crc32_u64(crc, word));
}
LONGHAUL_CRC_TARGET uint32_t crc_of_byte(uint32_t crc, uint8_t byte) { return _mm_crc32_u8(crc, byte); }
#elif defined(__aarch64__)
#define LONGHAUL_CRC_TARGET __attribute__((target("+crc")))
bool has_crc_instructions() { return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }
LONGHAUL_CRC_TARGET uint32_t crc_of_word(uint32_t crc, uint64_t word) { return __crc32cd(crc, word); }
LONGHAUL_CRC_TARGET uint32_t crc_of_byte(uint32_t crc, uint8_t byte) { return __crc32cb(crc, byte); }
#endif

#ifdef LONGHAUL_CRC_TARGET
LONGHAUL_CRC_TARGET uint32_t crc32c_instructions(std::span<const std::byte> data, uint32_t previous) {
  const std::byte* at = data.data();
  size_t left = data.size();
  uint32_t crc = ~previous;
  for (; left >= 8; left -= 8, at += 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    crc = crc_of_word(crc, word);
  }
  for (; left > 0; --left, ++at) crc = crc_of_byte(crc, static_cast<uint8_t>(*at));
  return ~crc;
}
#endif

}  // namespace

uint32_t crc32c_tables(std::span<const std::byte> data, uint32_t previous) {
  const std::byte* at = data.data();
  size_t left = data.size();
  uint32_t crc = ~previous;
  for (; left >= 8; left -= 8, at += 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    word ^= crc;
    crc = 0;
    for (size_t k = 0; k < 8; ++k) crc ^= kTables[7 - k][(word >> (8 * k)) & 0xff];
  }
  for (; left > 0; --left, ++at) crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<uint32_t>(*at)) & 0xff];
  return ~crc;
}

uint32_t crc32c(std::span<const std::byte> data, uint32_t previous) {
#ifdef LONGHAUL_CRC_TARGET
  static const bool kHasInstructions = has_crc_instructions();
  if (kHasInstructions) return crc32c_instructions(data, previous);
#endif
  return crc32c_tables(data, previous);
}

uint32_t crc32c(std::string_view data, uint32_t previous) {
  return crc32c(std::as_bytes(std::span(data.data(), data.size())), previous);
}

uint64_t xxh3(std::span<const std::byte> data) { return XXH3_64bits(data.data(), data.size()); }
uint64_t xxh3(std::string_view data) { return XXH3_64bits(data.data(), data.size()); }

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  const bool started = state_->context && EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1;
  LONGHAUL_ASSERT(started, "OpenSSL offers no SHA-256");
}

Sha256::~Sha256() = default;

void Sha256::update(std::span<const std::byte> data) {
  const bool taken = EVP_DigestUpdate(state_->context, data.data(), data.size()) == 1;
  LONGHAUL_ASSERT(taken, "SHA-256 update after its end");
}

std::string Sha256::hex() {
  std::array<unsigned char, 32> digest{};
  unsigned int length = 0;
  const bool ended =
      EVP_DigestFinal_ex(state_->context, digest.data(), &length) == 1 && length == digest.size();
  LONGHAUL_ASSERT(ended, "SHA-256 ended twice");
  std::string text;
  for (unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

std::string sha256_hex(std::string_view data) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(data.data(), data.size())));
  return hash.hex();
}

}  // namespace longhaul
