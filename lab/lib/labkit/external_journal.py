"""The agreement of lab/external-journal and its guest: the partitions, and how the file systems are made."""

BLOCK_BYTES = 1024
START_MIB = 1
JOURNAL_MIB = 8
SIZE_MIB = 96
FEATURES = {"ext3": "none,filetype,resize_inode,dir_index,sparse_super,large_file,ext_attr",
            "ext4": "extent,64bit,flex_bg,metadata_csum,dir_index,filetype,large_file,ext_attr"}
