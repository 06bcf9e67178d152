// Loaded ahead of a program that a test starts (compile-cache.ts): Node writes its cache when a program ends, and most of ours are killed.
import { flushCompileCache } from 'node:module'

/** When everything a start needs has been loaded. */
const loadedMs = 2_000
setTimeout(flushCompileCache, loadedMs).unref()
