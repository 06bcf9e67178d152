// brokkr tree STACK[@AGENT]: the objects of a stack in each cluster and what they own, with health.
import type { Client } from '@brokkr/client'
import type { TreeNode } from '@brokkr/contract/stacks/resource-tree.ts'
import type { Cli } from '../../cli.ts'
import type { Form } from '../../command.ts'
import { agentNames, parseAddress, requireAgent, requireStack } from '../../names.ts'
import { age } from '../../output.ts'
import { repeatOnChange, screenPrinter } from '../../screens.ts'
import { show, type View } from '../../show.ts'
import { stripControls } from '../../table.ts'

export async function tree(cli: Cli, [text = '']: readonly string[], options: { output: Form; watch?: boolean }): Promise<void> {
  const client = await cli.client()
  const { stack: name, agent } = parseAddress(text)
  const stack = await requireStack(client, name)
  const agentId = agent === null ? undefined : (await requireAgent(client, agent)).id
  const read = () => readTree(client, stack, agentId)
  if (options.watch !== true) return show(options.output, await read())
  const draw = screenPrinter(options.output)
  return repeatOnChange(cli, client, [`stack:${stack.id}`], async () => draw(await read()))
}

type Tree = Awaited<ReturnType<Client['getStackTree']>>[number]

async function readTree(
  client: Client,
  stack: { id: Parameters<Client['getStackTree']>[0]['params']['id']; name: string },
  agentId: Tree['agent_id'] | undefined,
): Promise<View> {
  const params = { id: stack.id }
  const trees: Tree[] = []
  for await (const one of client.items('getStackTree', { params, query: agentId === undefined ? {} : { agent_id: agentId } }))
    trees.push(one)
  const [status, names] = await Promise.all([client.getStackStatus({ params }), agentNames(client)])
  return {
    value: trees,
    names: trees.flatMap(({ nodes }) => nodes.map(({ kind, name }) => `${kind}/${name}`)),
    lines: () =>
      trees.length === 0
        ? [`${stack.name}: no agent has reported its objects yet`]
        : trees.flatMap((one) => {
            const agent = status.agents.find(({ agent_id }) => agent_id === one.agent_id)
            const name = names.get(one.agent_id) ?? one.agent_id
            const state = `${marks[agent?.health ?? 'unknown']} ${agent?.health ?? 'unknown'}, seen ${age(one.observed_at)} ago`
            return [`${stack.name}@${name} ${agent?.sequence_id ?? '-'} ${state}`, ...treeLines(one.nodes)]
          }),
  }
}

const marks = { healthy: '✔', degraded: '⚠', failing: '✖', unknown: '?' } as const

/** Owners first, in the order of kind and name; a node whose owner is missing stands at the top. */
export function treeLines(nodes: readonly TreeNode[]): string[] {
  const known = new Set(nodes.map(({ uid }) => uid))
  const children = Map.groupBy(nodes, ({ owner_uid }) => (owner_uid !== null && known.has(owner_uid) ? owner_uid : ''))
  const draw = (uid: string, indent: string, depth: number): string[] => {
    const own = (children.get(uid) ?? []).toSorted((a, b) => sortKey(a).localeCompare(sortKey(b)))
    return own.flatMap((node, at) => {
      const isLast = at === own.length - 1
      const line = `${indent}${isLast ? '└─' : '├─'} ${nodeText(node)}`
      // Owner references can form a circle only in a forged report.
      return depth > 20 ? [line] : [line, ...draw(node.uid, `${indent}${isLast ? '   ' : '│  '}`, depth + 1)]
    })
  }
  return draw('', '', 0)
}

const sortKey = ({ kind, namespace, name }: TreeNode): string => `${kind} ${namespace ?? ''} ${name}`
const nodeText = ({ kind, namespace, name, health, message }: TreeNode): string =>
  stripControls(
    [
      kind,
      namespace === null ? name : `${namespace}/${name}`,
      marks[health],
      ...(message === null || message === '' ? [] : [message]),
    ].join(' '),
  )
