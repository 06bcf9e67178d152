// Flow and bare loops as a program ships: sources and dependencies in a folder of chunks, so that loading TypeScript is not measured.
import { cpSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { build } from 'vite'

const root = join(import.meta.dirname, '../..')
const bare = ['kafka-to-kafka', 'kafka-to-postgresql', 'cdc-to-kafka', 'kafka-each', 'postgresql-to-clickhouse', 'kafka-to-iceberg']

/** The path of each program by its name: `ours`, or a bare loop's. */
export async function bundled(): Promise<(name: string) => string> {
  const dir = mkdtempSync(join(tmpdir(), 'bench-dataflow-'))
  const programs = ['bench/dataflow/ours.ts', ...bare.map((name) => `bench/bare/${name}.ts`)]
  await build({
    root,
    configFile: false,
    logLevel: 'error',
    ssr: { noExternal: true, external: ['pg-native', 'pg-cloudflare'] },
    build: {
      ssr: true,
      outDir: join(dir, 'bundle'),
      target: 'node24',
      minify: true,
      rollupOptions: {
        input: Object.fromEntries(programs.map((path) => [basename(path, '.ts'), join(root, path)])),
        output: { format: 'es', entryFileNames: '[name].js', chunkFileNames: '[name]-[hash].js' },
      },
    },
  })
  writeFileSync(join(dir, 'bundle', 'package.json'), '{"type":"module"}')
  // The Kafka client reads its compression from beside its own folder.
  const kafka = createRequire(import.meta.url).resolve('@platformatic/kafka')
  mkdirSync(join(dir, 'dist'))
  cpSync(join(dirname(createRequire(kafka).resolve('@platformatic/wasm-utils')), 'native.wasm'), join(dir, 'dist', 'native.wasm'))
  return (name) => join(dir, 'bundle', `${name}.js`)
}
