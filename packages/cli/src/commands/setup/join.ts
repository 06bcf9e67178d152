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
  const askedMs = Date.now()
  const invite = await change(options, `create an invite for ${options.name} and install an agent in ${kubeconfig.server}`, () =>
    createInvite(cli, options.name, { ...options, uses: '1' }),
  )
  if (invite === null) return
  try {
    const objects = await readManifest(client, invite)
    await install(kubeconfig.config, objects, (clusterMs) =>
      requireSameClock({ clusterMs, brokerMs: Date.parse(invite.created_at), askedMs }),
    )
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

/** `checkClock` gets the time of the API server before anything but the first object is installed. */
async function install(
  config: Parameters<typeof openKube>[0],
  objects: readonly KubeObject[],
  checkClock: (clusterMs: number) => void,
): Promise<void> {
  const kube = openKube(config, { userAgent: 'brokkr-cli' })
  try {
    for (const [at, object] of objects.entries()) {
      const { serverTimeMs } = await kube.apply(object, { fieldManager, force: true })
      if (at === 0 && serverTimeMs !== undefined) checkClock(serverTimeMs)
    }
  } catch (error) {
    if (error instanceof CliError) throw error
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

const skewMsMax = 60_000

/** The broker refuses an agent whose clock differs by more than a minute. The broker's time is that of the invite, plus what passed since. */
export function requireSameClock(
  { clusterMs, brokerMs, askedMs }: { clusterMs: number; brokerMs: number; askedMs: number },
  nowMs = Date.now(),
): void {
  const skewMs = clusterMs - (brokerMs + (nowMs - askedMs))
  if (Math.abs(skewMs) <= skewMsMax + (nowMs - askedMs)) return
  const seconds = Math.round(Math.abs(skewMs) / 1000)
  throw new CliError(`the clock of the cluster is ${seconds} s ${skewMs > 0 ? 'ahead of' : 'behind'} that of the broker`, {
    where: 'an agent whose clock differs by more than 60 s is refused (clock_skew)',
    next: 'correct the time of the nodes or of the broker, then run brokkr join again',
    exitCode: exitCodes.refused,
  })
}

async function waitForAgent(cli: Cli, client: Client, invite: Invite, options: JoinOptions): Promise<void> {
  await waitUntil(cli, client, {
    what: `the start of ${options.name}`,
    next: 'kubectl -n brokkr-agent get pods: the image may not be pulled, or the broker may not be reachable from the cluster',
    scope: ['kind:agent'],
    timeout: options.timeout ?? '5m',
    check: async () => {
      const { agents, revoked_at, expires_at } = await client.getAgentInvite({ params: { id: invite.id } })
      const [id] = agents
      if (id === undefined && (revoked_at !== null || Date.parse(expires_at) < Date.now())) throw inviteEnded(options, revoked_at !== null)
      if (id === undefined) return 'the pod of the agent to start and to join'
      const agent = await client.getAgent({ params: { id } })
      return agent.connection_state === 'connected' ? null : 'the connection of the agent'
    },
  })
  print(`${options.name} is connected`)
}

const inviteEnded = ({ name, valid }: JoinOptions, isRevoked: boolean): CliError =>
  new CliError(`${name} did not join: its join token ${isRevoked ? 'was revoked' : `expired after ${valid}`}`, {
    where: 'no agent can join with it any more',
    next: `brokkr join --name ${name} --valid 24h, which replaces the token in the cluster`,
    exitCode: exitCodes.refused,
  })
