// A worker file that fails while it is loaded.
throw new Error('cannot be loaded')
