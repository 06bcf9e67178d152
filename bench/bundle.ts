// Programs as they ship: the broker in a folder of chunks, its worker and its migrations beside them; others as one file.
import { cpSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { build } from 'vite'

/** The folder and its entry; the broker finds its migrations and its worker beside the chunk it was put into. */
export async function bundle(): Promise<{ dir: string; main: string }> {
  const root = join(import.meta.dirname, '..')
  const dir = mkdtempSync(join(tmpdir(), 'bench-bundle-'))
  await build({
    root,
    configFile: false,
    logLevel: 'error',
    ssr: { noExternal: true, external: ['pg-native', 'pg-cloudflare'] },
    build: {
      ssr: true,
      outDir: dir,
      target: 'node24',
      minify: true,
      rollupOptions: {
        input: { main: join(root, 'packages/broker/src/main.ts'), 'manifest-worker': join(root, 'packages/broker/src/manifest-worker.ts') },
        output: { format: 'es', entryFileNames: '[name].js', chunkFileNames: '[name]-[hash].js' },
      },
    },
  })
  writeFileSync(join(dir, 'package.json'), '{"type":"module"}')
  cpSync(join(root, 'packages/broker/migrations'), join(dir, 'migrations'), { recursive: true })
  return { dir, main: join(dir, 'main.js') }
}

/** One file that runs on a bare Node, as the agent is shipped. */
export async function bundleProgram(entry: string): Promise<string> {
  const outDir = mkdtempSync(join(tmpdir(), 'bench-program-'))
  await build({
    root: join(import.meta.dirname, '..'),
    configFile: false,
    logLevel: 'error',
    ssr: { noExternal: true, target: 'node' },
    build: {
      ssr: entry,
      outDir,
      target: 'node24',
      rollupOptions: { output: { format: 'es', entryFileNames: 'program.mjs', codeSplitting: false, minify: true, keepNames: true } },
    },
  })
  return join(outDir, 'program.mjs')
}
