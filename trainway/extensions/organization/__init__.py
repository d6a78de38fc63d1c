"""What large organizations do with images: promote the image of one platform to another one."""
