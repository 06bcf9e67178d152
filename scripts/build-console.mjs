// Builds the console into a folder of static files: `node scripts/build-console.mjs [folder]`. Built again only when a source changed.
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import { build } from 'vite'

const root = fileURLToPath(new URL('..', import.meta.url))
const source = join(root, 'packages', 'console', 'src')

/** @returns {Promise<string>} the folder */
export async function buildConsole(outDir = join(root, 'packages', 'console', 'dist', 'site')) {
  const stamp = sourceStamp()
  const stampFile = join(outDir, '.stamp')
  if (existsSync(stampFile) && readFileSync(stampFile, 'utf8') === stamp) return outDir
  await build({
    root: source,
    configFile: false,
    logLevel: 'error',
    define: { 'process.env.NODE_ENV': JSON.stringify('production') },
    build: {
      outDir,
      emptyOutDir: true,
      target: 'es2023',
      assetsInlineLimit: 0,
      modulePreload: { polyfill: false },
      chunkSizeWarningLimit: 1000,
      rollupOptions: { input: join(source, 'index.html') },
    },
  })
  compressFiles(outDir)
  writeFileSync(stampFile, stamp)
  return outDir
}

function compressFiles(dir) {
  for (const name of readdirSync(dir, { recursive: true })) {
    if (!['.js', '.css', '.svg'].includes(extname(name))) continue
    const body = readFileSync(join(dir, name))
    writeFileSync(join(dir, `${name}.br`), brotliCompressSync(body, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }))
    writeFileSync(join(dir, `${name}.gz`), gzipSync(body, { level: 9 }))
  }
}

/** Changes with every file of the console, its client and every package version. */
function sourceStamp() {
  const hash = createHash('sha256')
    .update(readFileSync(join(root, 'package-lock.json')))
    .update(readFileSync(fileURLToPath(import.meta.url)))
  for (const folder of [source, join(root, 'packages', 'client', 'src')]) {
    for (const name of readdirSync(folder, { recursive: true }).toSorted((a, b) => (a < b ? -1 : 1))) {
      const path = join(folder, name)
      if (statSync(path).isFile())
        hash
          .update(`${name}
`)
          .update(readFileSync(path))
    }
  }
  return hash.digest('hex')
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.stdout.write(`${await buildConsole(process.argv[2])}\n`)
