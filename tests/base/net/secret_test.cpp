// Secrets: the keyed hash against RFC 4231's vectors, and which files are refused.
#include "base/net/secret.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "base/error.h"
#include "base/files/file.h"
#include "base/files/temporary_folder.h"

namespace longhaul {
namespace {

TEST(Secret, TheHashIsThatOfRfc4231) {
  EXPECT_EQ(to_hex(hmac_sha256(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(to_hex(hmac_sha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  // A key longer than a block.
  EXPECT_EQ(
      to_hex(hmac_sha256(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Secret, Hexadecimal) {
  EXPECT_EQ(from_hex(to_hex(std::string("\x00\x7f\x80\xff", 4))), std::string("\x00\x7f\x80\xff", 4));
  for (const char* bad : {"0", "0g", "0A", " 0", "0x"}) EXPECT_EQ(from_hex(bad), "") << bad;
}

TEST(Secret, ComparesAllBytes) {
  EXPECT_TRUE(equal_in_constant_time("abc", "abc"));
  for (const char* other : {"abd", "bbc", "ab", "abcd", ""})
    EXPECT_FALSE(equal_in_constant_time("abc", other)) << other;
}

TEST(Secret, AFileIsMadeOnceForItsOwnerAlone) {
  const TemporaryFolder folder;
  const std::string secret = read_or_make_secret(folder / "secret");
  EXPECT_EQ(secret.size(), kSecretBytes);
  EXPECT_EQ(read_or_make_secret(folder / "secret"), secret);
  EXPECT_EQ(read_secret(folder / "secret"), secret);
  struct stat status {};
  ASSERT_EQ(::stat((folder / "secret").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_NE(read_or_make_secret(folder / "another"), secret);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 2)
      << "nothing else is left";
}

TEST(Secret, TheDriversKeyStandsBelowIt) {
  const TemporaryFolder folder;
  const std::string secret = read_or_make_secret(folder / "secret"), key(32, 'k');
  EXPECT_EQ(read_driver_key(folder / "secret"), "");
  tell_driver_key(folder / "secret", key);
  EXPECT_EQ(read_driver_key(folder / "secret"), key);
  EXPECT_EQ(read_secret(folder / "secret"), secret);
  tell_driver_key(folder / "secret", std::string(32, 'n'));
  EXPECT_EQ(read_driver_key(folder / "secret"), std::string(32, 'n'));
  EXPECT_EQ(read_or_make_secret(folder / "secret"), secret);
  struct stat status {};
  ASSERT_EQ(::stat((folder / "secret").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1)
      << "nothing else is left";
}

TEST(Secret, RefusedFiles) {
  const TemporaryFolder folder;
  const auto expect_refused = [&](const std::string& name, const std::string& part) {
    try {
      read_secret(folder / name);
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      EXPECT_THAT(error.what(), ::testing::HasSubstr(part));
    }
  };
  expect_refused("missing", "No such file");
  read_or_make_secret(folder / "good");
  std::filesystem::create_symlink(folder / "good", folder / "link");
  expect_refused("link", "symbolic link");
  std::filesystem::create_directory(folder / "folder");
  expect_refused("folder", "a plain file");
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  expect_refused("fifo", "a plain file");
  ::chmod((folder / "good").c_str(), 0640);
  expect_refused("good", "mode 0640");
  for (const std::string& text :
       {std::string(), std::string(63, 'a'), std::string(65, 'a'), std::string(64, 'z'),
        std::string(1000, 'a'), std::string(64, 'a') + "\n" + std::string(64, 'a'),
        std::string(64, 'a') + "\ndriver abc\n"}) {
    std::ofstream(folder / "text") << text;
    ::chmod((folder / "text").c_str(), 0600);
    expect_refused("text", "64 hexadecimal digits");
  }
}

TEST(Secret, ANodesOwnKeyNamesIt) {
  const TemporaryFolder folder;
  const std::string secret(32, 's'), key(32, 'k');
  write_node_secret(folder / "a", secret, key, "rack 2");
  EXPECT_EQ(read_text(folder / "a"), to_hex(secret) + "\ndriver " + to_hex(key) + "\nnode rack 2\n");
  EXPECT_EQ(read_secret(folder / "a"), secret);
  EXPECT_EQ(read_driver_key(folder / "a"), key);
  EXPECT_EQ(read_node_name(folder / "a"), "rack 2");
  tell_driver_key(folder / "a", std::string(32, 'n'));
  EXPECT_EQ(read_node_name(folder / "a"), "rack 2") << "another driver's key leaves the name";
  write_node_secret(folder / "a", key, "", "b");
  EXPECT_EQ(read_node_name(folder / "a"), "b");
  EXPECT_EQ(read_driver_key(folder / "a"), "");
  read_or_make_secret(folder / "job");
  EXPECT_EQ(read_node_name(folder / "job"), "");
  for (const std::string damaged :
       {"\nnode \n", "\nnode a\nmore\n", "\nnodes a\n", "\nnode a\ndriver 00\n"}) {
    write_text_atomically(folder / "damaged", to_hex(secret) + damaged);
    std::filesystem::permissions(folder / "damaged", std::filesystem::perms(0600));
    EXPECT_THROW(read_node_name(folder / "damaged"), Error) << damaged;
  }
}

}  // namespace
}  // namespace longhaul
