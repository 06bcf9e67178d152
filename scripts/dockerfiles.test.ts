// What a machine can check of the Dockerfiles without building them: bases, user, sources, entries, and that charts and images fit together.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { commands } from '@brokkr/cli/commands/index.ts'
import { expect, test } from 'vitest'
import { agentEnv, agentFlags } from './bundle-agent.mjs'
import { charts } from './charts/charts.ts'
import { buildDefaults } from './charts/values.ts'

const root = join(import.meta.dirname, '..')
const folder = join(root, 'docker')

interface Instruction {
  readonly name: string
  readonly rest: string
}
interface Image {
  readonly program: string
  readonly text: string
  /** By stage; the first one has what stands before the first FROM. */
  readonly stages: readonly (readonly Instruction[])[]
}

function readImage(file: string): Image {
  const text = readFileSync(join(folder, file), 'utf8')
  const stages: Instruction[][] = [[]]
  for (const line of text.split('\n')) {
    const [, name, rest] = /^([A-Z]+) (.+)$/.exec(line) ?? []
    if (line === '' || line.startsWith('#')) continue
    if (name === undefined || rest === undefined) throw new Error(`${file}: "${line}" is no instruction`)
    if (name === 'FROM') stages.push([])
    stages.at(-1)!.push({ name, rest })
  }
  return { program: file.replace('.Dockerfile', ''), text, stages }
}

const images = readdirSync(folder).map(readImage)
const find = (stage: readonly Instruction[], name: string): string[] => stage.flatMap((one) => (one.name === name ? [one.rest] : []))
const programs = ['agent', 'broker', 'dataflow-operator', 'dataflow-processor', 'pipelines']

test('each program has its Dockerfile', () => {
  expect(images.map(({ program }) => program).toSorted()).toEqual(programs)
})

test.each(images.map((image) => [image.program, image] as const))(
  '%s: both bases are given by digest, the user is not root',
  (_name, image) => {
    const [before, build, final, ...more] = image.stages
    expect(more).toEqual([])
    expect(before).toEqual(['BUILD_IMAGE', 'RUNTIME_IMAGE'].map((rest) => ({ name: 'ARG', rest })))
    // No default: a build without a digest stops.
    expect([find(build!, 'FROM'), find(final!, 'FROM')]).toEqual([['${BUILD_IMAGE} AS build'], ['${RUNTIME_IMAGE}']])
    expect(find(build!, 'RUN')[0]).toMatch(
      /^case "\$\{BUILD_IMAGE\} \$\{RUNTIME_IMAGE\}" in \*@sha256:\*\\ \*@sha256:\*\) ;; \*\) .*exit 1/,
    )
    expect(find(final!, 'USER')).toEqual(['10001:10001'])
    // Nothing is executed in the final image, which may have no shell.
    expect(find(final!, 'RUN')).toEqual([])
    expect(find(final!, 'COPY')).toEqual([expect.stringMatching(/^--from=build --chown=0:0 \/(out|app) \/app$/)])
  },
)

test.each(images.map((image) => [image.program, image] as const))(
  '%s: no latest, no address, no secret, packages by npm ci',
  (_name, image) => {
    expect(image.text).not.toMatch(/latest|https?:|^ADD/m)
    expect(image.text).not.toMatch(/^(ARG|ENV) .*(PASSWORD|TOKEN|SECRET|PAK|KEY|CREDENTIAL)/im)
    expect(image.text).not.toMatch(/npm (install|i|update)\b/)
    expect(find(image.stages[1]!, 'RUN').filter((command) => command.startsWith('npm ci'))).toHaveLength(1)
  },
)

test.each(images.map((image) => [image.program, image] as const))('%s: what is copied and run exists', (_name, image) => {
  const [, build, final] = image.stages
  const ignored = readFileSync(join(root, '.dockerignore'), 'utf8').split('\n')
  for (const copy of find(build!, 'COPY')) {
    const sources = copy.split(' ').slice(0, -1)
    for (const source of sources) {
      expect(existsSync(join(root, source)), source).toBe(true)
      expect(source === '.' || ignored.includes(`!${source}`), `${source} in .dockerignore`).toBe(true)
    }
  }
  const entry = JSON.parse(find(final!, 'ENTRYPOINT')[0]!) as string[]
  const script = find(build!, 'RUN')
    .find((command) => command.startsWith('node '))
    ?.split(' ')[1]
  if (script !== undefined) {
    const bundle = readFileSync(join(root, script), 'utf8')
    const file = entry.at(-1)!.replace('/app/', '')
    expect(bundle).toContain(`join(outDir, '${file}')`)
    expect(find(build!, 'RUN')).toContain(`node ${script} /out`)
    return
  }
  expect(entry).toEqual(['brokkr'])
  const { bin } = JSON.parse(readFileSync(join(root, 'packages/cli/package.json'), 'utf8')) as { bin: Record<string, string> }
  const main = readFileSync(join(root, 'packages/cli', bin['brokkr']!), 'utf8')
  expect(main.startsWith('#!')).toBe(true)
  expect(find(build!, 'RUN').join('\n')).toContain('packages/cli/src/main.ts')
  const command = (JSON.parse(find(final!, 'CMD')[0]!) as string[]).join(' ')
  expect(commands.map(({ path }) => path)).toContain(command)
})

test('the agent runs with the flags and the environment with which its bundle is measured', () => {
  const [, , final] = images.find(({ program }) => program === 'agent')!.stages
  expect(JSON.parse(find(final!, 'ENTRYPOINT')[0]!)).toEqual(['node', ...agentFlags, '/app/agent.mjs'])
  for (const [name, value] of Object.entries(agentEnv)) expect(find(final!, 'ENV').join(' ')).toContain(`${name}=${value}`)
})

test('every image that a chart names has a Dockerfile', () => {
  const repositories = charts.flatMap(({ values }) =>
    [...JSON.stringify(buildDefaults(values)).matchAll(/"repository":"([^"]+)"/g)].map((match) => match[1]!),
  )
  expect([...new Set(repositories)].toSorted()).toEqual(programs.map((program) => `brokkr/${program}`))
})
