// brokkr join: installs an agent in the cluster of a kubeconfig, by an invite, and waits until it is connected.
import type { Client } from '@brokkr/client'
import { parseManifest } from '@brokkr/contract/manifest/manifest.ts'
import { BadKubeconfig, KubeError, type KubeObject, loadKubeconfig, openKube } from '@brokkr/kube'
import { change } from '../../changes.ts'
import type { Cli } from '../../cli.ts'
import { readCliEnvironment } from '../../config.ts'
import { CliError, exitCodes, print, printError } from '../../output.ts'
import { waitUntil } from '../../wait.ts'
import { createInvite, type Invite, type InviteOptions } from '../agents/invite.ts'

interface JoinOptions extends Omit<InviteOptions, 'uses'> {
  readonly name: string
  readonly context?: string
  readonly kubeconfig?: string
}

const fieldManager = 'brokkr-join'

export async function join(cli: Cli, _args: readonly string[], options: JoinOptions): Promise<void> {
  const kubeconfig = await openKubeconfig(cli, options)
  const client = await cli.client()
  await requireFreeName(client, options.name)
  const invite = await change(options, `create an invite for ${options.name} and install an agent in ${kubeconfig.server}`, () =>
    createInvite(cli, options.name, { ...options, uses: '1' }),
  )
  if (invite === null) return
  try {
    const objects = await readManifest(client, invite)
    await install(kubeconfig.config, objects)
    print(`${options.name}: ${objects.length} objects installed in ${kubeconfig.server}`)
  } catch (error) {
    // Nothing can join with it any more.
    await client.revokeAgentInvite({ params: { id: invite.id } }).catch(() => undefined)
    throw error
  }
  if (options.wait === true) await waitForAgent(cli, client, invite, options)
  else printError(`the agent joins when its pod runs: brokkr get agents --watch`)
}

async function openKubeconfig(cli: Cli, options: JoinOptions) {
  const { KUBECONFIG } = readCliEnvironment(cli.env)
  try {
    const path = options.kubeconfig ?? (KUBECONFIG === null || KUBECONFIG.includes(':') ? undefined : KUBECONFIG)
    const config = await loadKubeconfig({ path, context: options.context, env: cli.env })
    return { config, server: config.server }
  } catch (error) {
    if (!(error instanceof BadKubeconfig)) throw error
    throw new CliError('the kubeconfig cannot be used', {
      next: '--kubeconfig FILE, --context NAME',
      exitCode: exitCodes.usage,
      cause: error,
    })
  }
}

async function requireFreeName(client: Client, name: string): Promise<void> {
  const [taken] = await client.listAgents({ query: { name } })
  if (taken !== undefined)
    throw new CliError(`an agent named ${name} exists already`, {
      where: `cluster ${taken.cluster_name}, ${taken.connection_state}`,
      next: `choose another --name, or brokkr agents remove ${name}`,
      exitCode: exitCodes.refused,
    })
}

async function readManifest(client: Client, invite: Invite): Promise<KubeObject[]> {
  const headers = { authorization: `Join ${invite.token}` }
  const text = await client.getJoinManifest({}, { headers })
  return parseManifest(text).map(({ object }) => object as unknown as KubeObject)
}

async function install(config: Parameters<typeof openKube>[0], objects: readonly KubeObject[]): Promise<void> {
  const kube = openKube(config, { userAgent: 'brokkr-cli' })
  try {
    for (const object of objects) await kube.apply(object, { fieldManager, force: true })
  } catch (error) {
    if (error instanceof KubeError)
      throw new CliError('the cluster refused the installation', {
        where: error.message,
        next: 'use a kubeconfig whose user may create namespaces, roles and deployments, or a smaller --preset',
        exitCode: exitCodes.notAllowed,
        cause: error,
      })
    throw new CliError('the cluster cannot be reached', {
      next: 'check the kubeconfig: --kubeconfig FILE, --context NAME',
      exitCode: exitCodes.failed,
      cause: error,
    })
  } finally {
    await kube.close()
  }
}

async function waitForAgent(cli: Cli, client: Client, invite: Invite, options: JoinOptions): Promise<void> {
  await waitUntil(cli, client, {
    what: `the start of ${options.name}`,
    next: 'kubectl -n brokkr-agent get pods: the image may not be pulled, or the broker may not be reachable from the cluster',
    scope: ['kind:agent'],
    timeout: options.timeout ?? '5m',
    check: async () => {
      const { agents } = await client.getAgentInvite({ params: { id: invite.id } })
      const [id] = agents
      if (id === undefined) return 'the pod of the agent to start and to join'
      const agent = await client.getAgent({ params: { id } })
      return agent.connection_state === 'connected' ? null : 'the connection of the agent'
    },
  })
  print(`${options.name} is connected`)
}
