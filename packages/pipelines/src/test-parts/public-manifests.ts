// Pipelines as users of the public controller write them: every field of its documented list, none of ours.
const header = (name: string) => `apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata:
  name: ${name}
  labels:
    app.kubernetes.io/part-of: ${name}
  annotations:
    metadata.weave.works/description: From dev to prod.
spec:
  appRef:
    apiVersion: helm.toolkit.fluxcd.io/v2
    kind: HelmRelease
    name: podinfo
`

export const publicManifests = {
  notification: `${header('by-notification')}  environments:
    - name: dev
      targets:
        - namespace: dev
    - name: prod
      targets:
        - namespace: prod
  promotion:
    strategy:
      notification: {}
`,
  'pull request': `${header('by-pull-request')}  environments:
    - name: dev
      targets:
        - namespace: dev
    - name: prod
      targets:
        - namespace: prod
  promotion:
    strategy:
      pull-request:
        type: github
        url: https://github.com/example/promotions
        baseBranch: main
        secretRef:
          name: promotion-credentials
`,
  'manual with hook secret': `${header('by-approval')}  environments:
    - name: dev
      targets:
        - namespace: dev
    - name: prod
      targets:
        - namespace: prod
      promotion:
        manual: true
        strategy:
          secretRef:
            name: hook-key
          notification: {}
  promotion:
    manual: false
    strategy:
      secretRef:
        name: hook-key
      pull-request:
        type: bitbucket-server
        url: https://bitbucket.example.com/scm/proj/promotions.git
        baseBranch: main
        secretRef:
          name: promotion-credentials
`,
  'remote clusters': `${header('with-clusters')}  environments:
    - name: dev
      targets:
        - namespace: podinfo
          clusterRef:
            kind: GitopsCluster
            name: dev
            namespace: default
    - name: prod
      targets:
        - namespace: podinfo
          clusterRef:
            apiVersion: gitops.weave.works/v1alpha1
            kind: GitopsCluster
            name: prod-eu
        - namespace: podinfo
          clusterRef:
            kind: GitopsCluster
            name: prod-us
  promotion:
    strategy:
      pull-request:
        type: gitlab
        url: https://gitlab.com/example/promotions
        baseBranch: main
        secretRef:
          name: promotion-credentials
`,
} as const
