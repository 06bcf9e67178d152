// Bundles the broker into a folder that runs on a bare Node: what its image ships. `node scripts/bundle-broker.mjs [folder]`
import { cpSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'vite'
import { buildConsole } from './build-console.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))

/** Writes the broker, its workers, the console and its migrations into the folder and returns the path of the program. */
export async function bundleBroker(outDir = join(root, 'packages', 'broker', 'dist', 'bundle')) {
  const source = (file) => join(root, 'packages', 'broker', 'src', file)
  await build({
    root,
    configFile: false,
    logLevel: 'error',
    ssr: { noExternal: true, external: ['pg-native', 'pg-cloudflare'] },
    build: {
      ssr: true,
      outDir,
      emptyOutDir: true,
      target: 'node24',
      minify: true,
      rollupOptions: {
        input: {
          main: source('main.ts'),
          'manifest-worker': source('deployments/manifest-worker.ts'),
          'template-worker': source('templates/template-worker.ts'),
        },
        output: { format: 'es', entryFileNames: '[name].js', chunkFileNames: '[name]-[hash].js' },
      },
    },
  })
  writeFileSync(join(outDir, 'package.json'), '{"type":"module"}')
  cpSync(await buildConsole(), join(outDir, 'console'), { recursive: true })
  cpSync(join(root, 'packages', 'broker', 'migrations'), join(outDir, 'migrations'), { recursive: true })
  return join(outDir, 'main.js')
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.stdout.write(`${await bundleBroker(process.argv[2])}\n`)
