// SPDX-License-Identifier: MIT OR GPL-2.0
// A window of physical memory in which physmap looks for a chip of parallel flash. Debian's physmap has no option for that.
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/mtd/physmap.h>

static ulong start;
module_param(start, ulong, 0444);
MODULE_PARM_DESC(start, "first byte");
static ulong bytes;
module_param(bytes, ulong, 0444);
MODULE_PARM_DESC(bytes, "bytes of the chip");

static struct physmap_flash_data chip = { .width = 1 };
static struct platform_device *window;

static int __init window_init(void)
{
	struct resource place = DEFINE_RES_MEM(start, bytes);

	window = platform_device_register_resndata(NULL, "physmap-flash", 0, &place, 1, &chip, sizeof(chip));
	return PTR_ERR_OR_ZERO(window);
}

static void __exit window_exit(void)
{
	platform_device_unregister(window);
}

module_init(window_init);
module_exit(window_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("A window to parallel flash");
