// SPDX-License-Identifier: BSD-3-Clause
#include "onesided/mapping.hpp"

#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>

namespace mh::onesided {
namespace {

std::uint64_t digest(std::string_view text) {
  std::uint64_t value = 0xcbf29ce484222325ULL;  // FNV-1a
  for (const char letter : text) {
    value = (value ^ static_cast<unsigned char>(letter)) * 0x100000001b3ULL;
  }
  return value;
}

// A file may be unlinked between the looks of two processes.
std::string_view name_in(std::string_view text) {
  constexpr std::string_view kGone = " (deleted)";
  if (text.ends_with(kGone)) text.remove_suffix(kGone.size());
  return text;
}

}  // namespace

Mappings Mappings::read() {
  Mappings found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    Mapping one{};
    char permissions[5] = {};
    unsigned major = 0;
    unsigned minor = 0;
    int name = 0;
    const int fields = std::sscanf(
        line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &one.begin,
        &one.end, permissions, &one.file.offset, &major, &minor, &one.file.inode, &name);
    const std::string_view allowed = permissions;
    if (fields < 7 || one.file.inode == 0 || allowed.substr(0, 2) != "rw" || allowed[3] != 's') {
      continue;
    }
    one.file.device = static_cast<std::uint64_t>(major) << 32U | minor;
    one.file.name = digest(name_in(std::string_view(line).substr(static_cast<std::size_t>(name))));
    one.file.bytes = one.end - one.begin;
    Mapping* last = found.shared_.empty() ? nullptr : &found.shared_.back();
    const bool goes_on = last != nullptr && last->end == one.begin &&
                         last->file.device == one.file.device &&
                         last->file.inode == one.file.inode && last->file.name == one.file.name &&
                         last->file.offset + last->file.bytes == one.file.offset;
    if (goes_on) {
      last->end = one.end;
      last->file.bytes += one.file.bytes;
    } else {
      found.shared_.push_back(one);
    }
  }
  return found;
}

std::optional<FileRange> Mappings::file_of(const void* address, std::uint64_t bytes) const {
  const auto begin = reinterpret_cast<std::uint64_t>(address);
  for (const Mapping& mapping : shared_) {
    if (begin < mapping.begin || begin >= mapping.end || bytes > mapping.end - begin) continue;
    FileRange range = mapping.file;
    range.offset += begin - mapping.begin;
    range.bytes = bytes;
    return range;
  }
  return std::nullopt;
}

std::byte* Mappings::address_of(const FileRange& range) const {
  if (range.inode == 0) return nullptr;
  for (const Mapping& mapping : shared_) {
    const FileRange& file = mapping.file;
    if (file.device != range.device || file.inode != range.inode || file.name != range.name)
      continue;
    if (range.offset < file.offset || range.offset - file.offset > file.bytes) continue;
    const std::uint64_t before = range.offset - file.offset;
    if (range.bytes > file.bytes - before) continue;
    return reinterpret_cast<std::byte*>(mapping.begin + before);
  }
  return nullptr;
}

}  // namespace mh::onesided
