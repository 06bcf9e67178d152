// brokkr apply -f FILE --stack NAME: submits manifests as the next revision; equal content changes nothing.
import { createHash } from 'node:crypto'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '@brokkr/contract/client.ts'
import type { StackId } from '@brokkr/contract/wire.ts'
import { openClient } from '../context.ts'
import type { ApplyFlags, Globals } from '../main.ts'
import { CliError, print, tell } from '../output.ts'

const bytesMax = 8 * 1024 * 1024

export async function apply(globals: Globals, options: ApplyFlags): Promise<void> {
  const client = await openClient(globals)
  const text = await readManifests(options.file)
  const stack = await findOrCreateStack(client, options)
  const [head] = await client.listDeploymentObjects({ params: { id: stack }, query: { content: false } })
  const isSame = head !== undefined && !head.is_deletion_marker && head.yaml_checksum === createHash('sha256').update(text).digest('hex')
  const sequence = isSame ? head.sequence_id : await submit(client, stack, text)
  print(isSame ? `${options.stack} ${sequence} unchanged` : `${options.stack} ${head?.sequence_id ?? 0} → ${sequence}`)
  if (options.wait === true)
    await waitUntilApplied(client, { stack, name: options.stack, sequence, limitMs: Number(options.timeout) * 1000 })
}

async function submit(client: Client, stack: StackId, text: string): Promise<number> {
  const { sequence_id, warnings } = await client.createDeploymentObject({ params: { id: stack }, body: { yaml_content: text } })
  for (const warning of warnings ?? []) tell(`warning: ${warning}`)
  return sequence_id
}

async function readManifests(path: string): Promise<string> {
  if (path === '-') return readStdin()
  const found = await stat(path).catch((cause: unknown) => {
    throw new CliError('the manifest cannot be read', {
      where: path,
      next: 'name a file, a folder, or - for standard input',
      exitCode: 2,
      cause,
    })
  })
  if (!found.isDirectory()) return readFile(path, 'utf8')
  const names = (await readdir(path)).filter((name) => /\.(ya?ml|json)$/.test(name)).toSorted()
  if (names.length === 0)
    throw new CliError('the folder holds no manifest', { where: path, next: 'name a folder with .yaml, .yml or .json files', exitCode: 2 })
  const texts = await Promise.all(names.map((name) => readFile(join(path, name), 'utf8')))
  return texts.join('\n---\n')
}

async function readStdin(): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > bytesMax) throw new CliError(`standard input holds more than ${bytesMax} bytes`, { next: 'split the stack', exitCode: 2 })
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

async function findOrCreateStack(client: Client, { stack, generator, label }: ApplyFlags): Promise<StackId> {
  const [found] = await client.listStacks({ query: { name: stack } })
  if (found !== undefined) return found.id
  const [owner] = await client.listGenerators({ query: { name: generator } })
  if (owner === undefined) throw new CliError(`there is no generator named ${generator}`, { next: 'brokkr get generators' })
  const made = await client.createStack({ body: { name: stack, generator_id: owner.id, labels: label } })
  return made.id
}

/** Ends when every agent says applied for this sequence or a later one; Ctrl-C stops the waiting, not the work. */
async function waitUntilApplied(
  client: Client,
  wanted: { stack: StackId; name: string; sequence: number; limitMs: number },
): Promise<void> {
  const end = Date.now() + wanted.limitMs
  for (;;) {
    const { agents } = await client.getStackStatus({ params: { id: wanted.stack } })
    const done = agents.filter((agent) => agent.phase === 'applied' && (agent.sequence_id ?? 0) >= wanted.sequence)
    if (agents.length > 0 && done.length === agents.length) {
      print(`${wanted.name} ${wanted.sequence} applied by ${agents.map((agent) => agent.agent_name).join(', ')}`)
      return
    }
    const failed = agents.find((agent) => agent.phase === 'failed' && (agent.sequence_id ?? 0) >= wanted.sequence)
    if (failed !== undefined)
      throw new CliError(`${wanted.name} was not applied on ${failed.agent_name}`, {
        where: failed.code ?? '',
        next: `brokkr describe stack ${wanted.name}`,
        exitCode: 6,
        cause: new Error(failed.message ?? ''),
      })
    if (Date.now() > end)
      throw new CliError(`${wanted.name} is not applied everywhere: ${done.length} of ${agents.length} agents`, {
        next: `brokkr describe stack ${wanted.name}`,
        exitCode: 6,
      })
    await sleep(250)
  }
}
