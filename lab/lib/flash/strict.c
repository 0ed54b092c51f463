// SPDX-License-Identifier: MIT OR GPL-2.0
// Chips of NOR flash in memory that keep the rules of NOR flash, which neither mtdram nor QEMU's chip does:
// - programming clears bits and sets none;
// - without MTD_BIT_WRITEABLE each unit of 16 bytes is programmed once after its erasure, as on chips with ECC: a second time fails,
//   and is counted in `violations`;
// - after `cut_after` operations the power fails: that operation is done in part, and all later ones, reads too, fail until
//   another number is written. A program that is cut off leaves its first bytes, and one byte with half of its bits. An
//   erasure that is cut off leaves the first half of the block.
#include <linux/module.h>
#include <linux/mtd/mtd.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#define CHIPS_MAX 8
#define UNIT 16
#define NEVER (-1)

static uint blocks[CHIPS_MAX], block_bytes[CHIPS_MAX], program_bytes[CHIPS_MAX], flags[CHIPS_MAX];
static int chips, given;
module_param_array(blocks, uint, &chips, 0444);
module_param_array(block_bytes, uint, &given, 0444);
module_param_array(program_bytes, uint, &given, 0444);
module_param_array(flags, uint, &given, 0444);
static int cut_after = NEVER;
module_param(cut_after, int, 0644);
static uint operations, violations;
module_param(operations, uint, 0444);
module_param(violations, uint, 0444);

struct chip {
	struct mtd_info mtd;
	u8 *content;
	u8 *is_programmed;	// of each unit
	char name[16];
};

static struct chip chip[CHIPS_MAX];
static DEFINE_MUTEX(busy);

enum power { ON, FAILS, OFF };

// Counts an operation.
static enum power spend(void)
{
	if (cut_after == 0)
		return OFF;
	operations++;
	if (cut_after == NEVER)
		return ON;
	cut_after--;
	return cut_after == 0 ? FAILS : ON;
}

static int chip_read(struct mtd_info *mtd, loff_t from, size_t length, size_t *done, u_char *into)
{
	struct chip *it = mtd->priv;

	if (cut_after == 0)
		return -EIO;
	memcpy(into, it->content + from, length);
	*done = length;
	return 0;
}

static int program(struct chip *it, loff_t to, size_t length, const u_char *from)
{
	size_t at, end = length, last = length - 1;
	enum power power = spend();

	if (power == OFF)
		return -EIO;
	if (power == FAILS)
		end = last = length / 2;
	if (!(it->mtd.flags & MTD_BIT_WRITEABLE)) {
		for (at = to / UNIT; at <= (to + last) / UNIT; at++) {
			if (it->is_programmed[at]) {
				violations++;
				return -EIO;
			}
			it->is_programmed[at] = 1;
		}
	}
	for (at = 0; at < end; at++)
		it->content[to + at] &= from[at];
	if (power == FAILS) {
		it->content[to + end] &= from[end] | 0x5a;
		return -EIO;
	}
	return 0;
}

static int chip_write(struct mtd_info *mtd, loff_t to, size_t length, size_t *done, const u_char *from)
{
	struct chip *it = mtd->priv;
	int error;

	if (to % mtd->writesize || length % mtd->writesize)
		return -EINVAL;
	if (length == 0)
		return 0;
	mutex_lock(&busy);
	error = program(it, to, length, from);
	mutex_unlock(&busy);
	*done = error ? 0 : length;
	return error;
}

static int erase_block(struct chip *it, loff_t at)
{
	size_t length = it->mtd.erasesize;
	enum power power = spend();

	if (power == OFF)
		return -EIO;
	if (power == FAILS)
		memset(it->content + at + length / 2, 0xff, length - length / 2);
	else
		memset(it->content + at, 0xff, length);
	if (power == FAILS)
		return -EIO;
	memset(it->is_programmed + at / UNIT, 0, length / UNIT);
	return 0;
}

static int chip_erase(struct mtd_info *mtd, struct erase_info *what)
{
	loff_t at;
	int error = 0;

	if (what->addr % mtd->erasesize || what->len % mtd->erasesize)
		return -EINVAL;
	mutex_lock(&busy);
	for (at = what->addr; at < what->addr + what->len && !error; at += mtd->erasesize)
		error = erase_block(mtd->priv, at);
	mutex_unlock(&busy);
	return error;
}

static int begin(struct chip *it, int number)
{
	size_t bytes = (size_t)blocks[number] * block_bytes[number];

	it->content = vmalloc(bytes);
	it->is_programmed = vzalloc(bytes / UNIT);
	if (!it->content || !it->is_programmed)
		return -ENOMEM;
	memset(it->content, 0xff, bytes);
	snprintf(it->name, sizeof(it->name), "strict%d", number);
	it->mtd = (struct mtd_info) {
		.name = it->name, .type = MTD_NORFLASH, .flags = flags[number], .size = bytes, .erasesize = block_bytes[number],
		.writesize = program_bytes[number], .writebufsize = program_bytes[number], .owner = THIS_MODULE, .priv = it,
		._read = chip_read, ._write = chip_write, ._erase = chip_erase,
	};
	return mtd_device_register(&it->mtd, NULL, 0);
}

static void strict_exit(void)
{
	int number;

	for (number = 0; number < CHIPS_MAX; number++) {
		if (chip[number].mtd.name)
			mtd_device_unregister(&chip[number].mtd);
		vfree(chip[number].content);
		vfree(chip[number].is_programmed);
	}
}

static int __init strict_init(void)
{
	int number, error = 0;

	for (number = 0; number < chips && !error; number++)
		error = begin(&chip[number], number);
	if (error)
		strict_exit();
	return error;
}

module_init(strict_init);
module_exit(strict_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Chips of NOR flash that keep its rules");
