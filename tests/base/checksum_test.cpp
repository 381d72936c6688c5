#include "base/checksum.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace longhaul {
namespace {

std::string random_text(uint64_t length) {
  const RandomStream stream(1, "test/checksum");
  std::string text;
  for (uint64_t i = 0; i < length; ++i) text += static_cast<char>(stream.below(i, 256));
  return text;
}

std::span<const std::byte> checksum_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(Checksum, Crc32cKnownValues) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);  // RFC 3720 B.4
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string rising;
  for (char c = 0; c < 32; ++c) rising += c;
  EXPECT_EQ(crc32c(rising), 0x46dd794eu);
}

TEST(Checksum, Crc32cTablesEqualTheInstructionAtEveryLengthAndAlignment) {
  const std::string text = random_text(200);
  EXPECT_EQ(crc32c_tables(checksum_bytes("123456789")), 0xe3069283u);
  for (size_t begin = 0; begin < 9; ++begin)
    for (size_t length = 0; begin + length <= text.size(); ++length) {
      const auto piece = checksum_bytes(text).subspan(begin, length);
      ASSERT_EQ(crc32c(piece, 7), crc32c_tables(piece, 7)) << begin << " " << length;
    }
}

TEST(Checksum, Crc32cGoesOnFromAPrevious) {
  const std::string text = random_text(100);
  for (size_t cut = 0; cut <= text.size(); ++cut)
    ASSERT_EQ(crc32c(std::string_view(text).substr(cut), crc32c(std::string_view(text).substr(0, cut))),
              crc32c(text));
}

TEST(Checksum, Xxh3KnownValues) {
  EXPECT_EQ(xxh3(""), 0x2d06800538d394c2u);
  EXPECT_EQ(xxh3("a"), 0xe6c632b61e964e1fu);
}

TEST(Checksum, Sha256KnownValues) {  // FIPS 180-4 examples
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  Sha256 pieces;
  pieces.update(checksum_bytes("a"));
  pieces.update(checksum_bytes("bc"));
  EXPECT_EQ(pieces.hex(), sha256_hex("abc"));
}

}  // namespace
}  // namespace longhaul
