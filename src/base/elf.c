/* SPDX-License-Identifier: BSD-3-Clause */
/* Symbol tables of loaded objects, by the GNU and System V hash tables of the ELF specification.
 * Files are read and never mapped, because a file may be truncated meanwhile. */
#define _GNU_SOURCE
#include "base/elf.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

struct mh_object mh_object_of(const struct dl_phdr_info* info) {
  struct mh_object object = {info->dlpi_addr, NULL, info->dlpi_name, info->dlpi_phdr,
                             info->dlpi_phnum};
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type == PT_DYNAMIC) {
      object.dynamic = (const ElfW(Dyn)*)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    }
  }
  return object;
}

struct object_search {
  uintptr_t address;
  struct mh_object object;
};

static int search_object(struct dl_phdr_info* info, size_t bytes, void* data) {
  (void)bytes;
  struct object_search* search = data;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)* part = &info->dlpi_phdr[i];
    const uintptr_t start = info->dlpi_addr + part->p_vaddr;
    if (part->p_type == PT_LOAD && search->address - start < part->p_memsz) {
      search->object = mh_object_of(info);
      return 1;
    }
  }
  return 0;
}

/* Unlike dladdr(), does not walk all symbols of the object. */
struct mh_object mh_object_at(const void* address) {
  struct object_search search = {(uintptr_t)address, {0, NULL, "", NULL, 0}};
  if (address != NULL) dl_iterate_phdr(search_object, &search);
  return search.object;
}

struct mh_object mh_front(void) {
  return mh_object_at(_DYNAMIC);
}

static const ElfW(Dyn) * entry_of(const struct mh_object* object, ElfW(Sxword) tag) {
  for (const ElfW(Dyn)* entry = object->dynamic; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == tag) return entry;
  }
  return NULL;
}

/* Returns a table's address. glibc relocates these addresses in place, except where the dynamic
 * section is read-only (the vdso); an address below the base is still an offset. */
static const void* table_of(const struct mh_object* object, ElfW(Sxword) tag) {
  const ElfW(Dyn)* entry = entry_of(object, tag);
  if (entry == NULL) return NULL;
  const uintptr_t address = entry->d_un.d_ptr;
  return (const void*)(address < object->base ? object->base + address : address);
}

/* The tables that every lookup needs. */
struct symbol_names {
  const ElfW(Sym) * symbols;
  const char* strings;
};

static bool is_definition(const struct symbol_names* names, uint32_t index, const char* name) {
  const ElfW(Sym)* symbol = &names->symbols[index];
  return symbol->st_shndx != SHN_UNDEF && strcmp(names->strings + symbol->st_name, name) == 0;
}

static uint32_t gnu_hash(const char* name) {
  uint32_t hash = 5381;
  for (; *name != 0; ++name) hash = hash * 33 + (unsigned char)*name;
  return hash;
}

static uint32_t find_gnu(const struct symbol_names* names, const uint32_t* table,
                         const char* name) {
  const uint32_t buckets = table[0], first = table[1], words = table[2], shift = table[3];
  if (buckets == 0) return 0;
  const uint32_t hash = gnu_hash(name);
  const ElfW(Addr)* bloom = (const ElfW(Addr)*)&table[4];
  const uint32_t bits = 8 * sizeof(ElfW(Addr));
  const ElfW(Addr) wanted = (ElfW(Addr))1 << (hash % bits) | (ElfW(Addr))1
                                                                 << ((hash >> shift) % bits);
  if ((bloom[(hash / bits) % words] & wanted) != wanted) return 0;
  const uint32_t* heads = (const uint32_t*)&bloom[words];
  const uint32_t* chain = &heads[buckets];
  uint32_t index = heads[hash % buckets];
  if (index < first) return 0;
  for (;; ++index) {
    const uint32_t stored = chain[index - first];
    if ((stored | 1) == (hash | 1) && is_definition(names, index, name)) return index;
    if ((stored & 1) != 0) return 0;
  }
}

static uint32_t system_v_hash(const char* name) {
  uint32_t hash = 0;
  for (; *name != 0; ++name) {
    hash = (hash << 4) + (unsigned char)*name;
    hash ^= (hash >> 24) & 0xf0;
    hash &= 0x0fffffff;
  }
  return hash;
}

static uint32_t find_system_v(const struct symbol_names* names, const uint32_t* table,
                              const char* name) {
  const uint32_t buckets = table[0];
  const uint32_t* heads = &table[2];
  const uint32_t* chain = &heads[buckets];
  if (buckets == 0) return 0;
  uint32_t index = heads[system_v_hash(name) % buckets];
  while (index != 0 && !is_definition(names, index, name)) index = chain[index];
  return index;
}

const ElfW(Sym) * mh_symbol(const struct mh_object* object, const char* name) {
  if (object->dynamic == NULL) return NULL;
  const struct symbol_names names = {table_of(object, DT_SYMTAB), table_of(object, DT_STRTAB)};
  const uint32_t* gnu = table_of(object, DT_GNU_HASH);
  const uint32_t* system_v = table_of(object, DT_HASH);
  if (names.symbols == NULL || names.strings == NULL) return NULL;
  uint32_t index = 0;
  if (gnu != NULL) {
    index = find_gnu(&names, gnu, name);
  } else if (system_v != NULL) {
    index = find_system_v(&names, system_v, name);
  }
  return index != 0 ? &names.symbols[index] : NULL;
}

void* mh_address(const struct mh_object* object, const char* name) {
  const ElfW(Sym)* symbol = mh_symbol(object, name);
  return symbol != NULL ? (void*)(object->base + symbol->st_value) : NULL;
}

const char* mh_soname(const struct mh_object* object) {
  const char* strings = table_of(object, DT_STRTAB);
  const ElfW(Dyn)* soname = entry_of(object, DT_SONAME);
  if (soname != NULL && strings != NULL) return strings + soname->d_un.d_val;
  const char* slash = strrchr(object->file, '/');
  return slash != NULL ? slash + 1 : object->file;
}

static void import_of(const struct mh_object* object, const struct symbol_names* names,
                      const ElfW(Rela) * relocation, mh_import* each, void* data) {
  const uint64_t jump = R_X86_64_JUMP_SLOT, address = R_X86_64_GLOB_DAT;
  const uint64_t type = ELF64_R_TYPE(relocation->r_info);
  if (type != jump && type != address) return;
  const ElfW(Sym)* symbol = &names->symbols[ELF64_R_SYM(relocation->r_info)];
  each(names->strings + symbol->st_name, (void**)(object->base + relocation->r_offset), data);
}

void mh_imports(const struct mh_object* object, mh_import* each, void* data) {
  static const ElfW(Sxword) tables[][2] = {{DT_JMPREL, DT_PLTRELSZ}, {DT_RELA, DT_RELASZ}};
  if (object->dynamic == NULL) return;
  const struct symbol_names names = {table_of(object, DT_SYMTAB), table_of(object, DT_STRTAB)};
  if (names.symbols == NULL || names.strings == NULL) return;
  for (int i = 0; i < 2; ++i) {
    const ElfW(Rela)* relocations = table_of(object, tables[i][0]);
    const ElfW(Dyn)* bytes = entry_of(object, tables[i][1]);
    if (relocations == NULL || bytes == NULL) continue;
    const size_t count = bytes->d_un.d_val / sizeof *relocations;
    for (size_t j = 0; j < count; ++j) import_of(object, &names, &relocations[j], each, data);
  }
}

static bool read_at(int file, void* to, size_t bytes, uint64_t offset) {
  return pread(file, to, bytes, (off_t)offset) == (ssize_t)bytes;
}

/* Finds the first section of this type. */
static bool find_section(int file, const ElfW(Ehdr) * header, uint32_t type, ElfW(Shdr) * found) {
  for (unsigned i = 0; i < header->e_shnum; ++i) {
    const uint64_t offset = header->e_shoff + (uint64_t)i * sizeof *found;
    if (!read_at(file, found, sizeof *found, offset)) return false;
    if (found->sh_type == type) return true;
  }
  return false;
}

static bool covers_offset(const ElfW(Sym) * symbol, uint64_t offset) {
  return ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_shndx != SHN_UNDEF &&
         offset - symbol->st_value < symbol->st_size;
}

static bool find_function(int file, const ElfW(Shdr) * table, uint64_t offset, ElfW(Sym) * found) {
  enum { at_once = 128 };
  ElfW(Sym) some[at_once];
  const uint64_t count = table->sh_size / sizeof *some;
  for (uint64_t i = 0; i < count; i += at_once) {
    const uint64_t here = count - i < at_once ? count - i : at_once;
    if (!read_at(file, some, here * sizeof *some, table->sh_offset + i * sizeof *some)) break;
    for (uint64_t j = 0; j < here; ++j) {
      if (!covers_offset(&some[j], offset)) continue;
      *found = some[j];
      return true;
    }
  }
  return false;
}

static bool read_name(int file, const ElfW(Ehdr) * header, const ElfW(Shdr) * table,
                      const ElfW(Sym) * symbol, char* name, size_t bytes) {
  ElfW(Shdr) strings;
  const uint64_t place = header->e_shoff + (uint64_t)table->sh_link * sizeof strings;
  if (!read_at(file, &strings, sizeof strings, place) || symbol->st_name >= strings.sh_size) {
    return false;
  }
  const uint64_t left = strings.sh_size - symbol->st_name;
  const size_t wanted = left < bytes - 1 ? (size_t)left : bytes - 1;
  if (!read_at(file, name, wanted, strings.sh_offset + symbol->st_name)) return false;
  name[wanted] = 0;
  return name[0] != 0;
}

static bool is_elf_64(const ElfW(Ehdr) * header) {
  return memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 && header->e_ident[EI_CLASS] == ELFCLASS64 &&
         header->e_shentsize == sizeof(ElfW(Shdr));
}

static bool function_in(int file, uint64_t offset, char* name, size_t bytes) {
  static const uint32_t tables[] = {SHT_SYMTAB, SHT_DYNSYM};
  ElfW(Ehdr) header;
  if (!read_at(file, &header, sizeof header, 0) || !is_elf_64(&header)) return false;
  for (int i = 0; i < 2; ++i) {
    ElfW(Shdr) table;
    ElfW(Sym) symbol;
    if (!find_section(file, &header, tables[i], &table)) continue;
    if (!find_function(file, &table, offset, &symbol)) continue;
    return read_name(file, &header, &table, &symbol, name, bytes);
  }
  return false;
}

bool mh_function_at(const struct mh_object* object, const void* address, char* name, size_t bytes) {
  const char* path = object->file[0] != 0 ? object->file : "/proc/self/exe";
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool found = function_in(file, (uintptr_t)address - object->base, name, bytes);
  close(file);
  return found;
}
